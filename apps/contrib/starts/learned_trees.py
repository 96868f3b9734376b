"""Trees that a scheduler's settled promises teach: trained each day, and made again from the rows alone.

They are a function of the rows of SPAN before a report, as that report left them. What a later report brought, such as
the start of a job that still waited then, teaches them nothing. So they can be trained again with the same bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, NamedTuple

import numpy as np
from django.db.models import Q

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.starts.models import Outcome, StartPromise, StartState, StartTrees
from apps.contrib.starts.prediction.calibration import SHIFT_S
from apps.contrib.starts.prediction.queue_facts import is_of_layout, unpacked
from apps.contrib.starts.prediction.saved_trees import load_trees, save_trees
from apps.contrib.starts.prediction.trees import LEAST_TO_TRAIN, MOST_TRAINING_ROWS, SPAN_S, Trees, train
from apps.core.blobs import CorruptBlob

SPAN = timedelta(seconds=SPAN_S)  # rows are kept longer, so that the newest trees can be trained again
LASTS = timedelta(days=3)  # what isn't trained again each day is of a machine as it was
_BROKEN = (Outcome.BROKEN, Outcome.BROKEN_APART)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LearnedTrees:
    """What the trees of a scheduler are made of. learned_at: of the last report that they know."""

    learned_at: Annotated[datetime, "Time of the last listing that they know"]
    jobs: Annotated[int, "Settled jobs of 60 days whose start is known"]
    least_jobs: Annotated[int, "Below so many there are none"]

    @property
    def is_enough(self) -> bool:
        return self.jobs >= self.least_jobs


class _Row(NamedTuple):
    job: str
    since_at: datetime
    made_at: datetime
    bounds_s: Sequence[float]
    outcomes: Sequence[int]
    settled_in: Sequence[int | None]
    cause: str
    withdrawn_at: datetime | None
    left_at: datetime | None
    left_in: int | None
    has_started: bool | None
    facts: bytes | memoryview


def learn_trees(scheduler: Scheduler) -> bool:
    """Train the trees of a scheduler on what its last report left; returns whether there are any.

    What was trained on the same report before, and can be read, stays.
    """
    stored = StartTrees.objects.filter(scheduler=scheduler).first()
    is_newest = stored is not None and StartState.objects.filter(scheduler=scheduler, seq=stored.seq).exists()
    if stored is not None and is_newest and _can_be_read(stored):
        return bool(stored.digest)
    return _learn(scheduler)


def _learn(scheduler: Scheduler) -> bool:
    state = StartState.objects.filter(scheduler=scheduler).only("seq", "taken_at").first()
    if state is None or state.taken_at is None:
        return False
    made = trained(scheduler, seq=state.seq, at=state.taken_at)
    fields = {name: getattr(made, name) for name in ("seq", "at", "n_rows", "n_jobs", "data", "digest")}
    StartTrees.objects.update_or_create(scheduler=scheduler, defaults=fields)
    return bool(made.digest)


def readable_trees(scheduler: Scheduler, at: datetime) -> Trees | None:
    """The trees for promises of an instant; None where there are none, none of late, or none that can be read."""
    stored = StartTrees.objects.filter(scheduler=scheduler, at__gt=at - LASTS).exclude(digest="").first()
    try:
        return None if stored is None else load_trees(stored.data, stored.digest, _inputs(stored))
    except CorruptBlob as error:
        _log.warning("Trees of %s are left out until they are trained again: %s", scheduler.name, error)
        return None


def are_as_rows_teach(scheduler: Scheduler) -> bool:
    """Whether what is stored is what the rows alone teach; also where nothing is stored."""
    stored = StartTrees.objects.filter(scheduler=scheduler).first()
    if stored is None:
        return True
    again = trained(scheduler, seq=stored.seq, at=stored.at)
    stored.data = bytes(stored.data)
    return all(getattr(again, name) == getattr(stored, name) for name in ("n_rows", "n_jobs", "data", "digest"))


def learned_trees(scheduler: Scheduler) -> LearnedTrees | None:
    """None before the first training."""
    stored = StartTrees.objects.filter(scheduler=scheduler).only("at", "n_jobs").first()
    return None if stored is None else LearnedTrees(stored.at, stored.n_jobs, LEAST_TO_TRAIN)


def rebuild_trees(scheduler: Scheduler) -> bool:
    """Train again what differs from the rows; returns whether something did."""
    is_different = not are_as_rows_teach(scheduler)
    if is_different:
        _learn(scheduler)
    return is_different


def trained(scheduler: Scheduler, *, seq: int, at: datetime) -> StartTrees:
    """Trees, not stored, of the rows as report `seq` of an instant left them; without a digest if too few started."""
    rows = _settled_rows(scheduler, seq, at)
    ends = [_end(row, seq, at) for row in rows]
    numbers: dict[tuple[str, datetime], int] = {}
    job = np.array([numbers.setdefault((row.job, row.since_at), len(numbers)) for row in rows], np.int64)
    is_known = np.array([is_known for _until_at, is_known in ends], np.bool_)
    waits_s = [
        max((until_at - row.made_at).total_seconds(), 0.0)
        for row, (until_at, _is_known) in zip(rows, ends, strict=True)
    ]
    n_jobs = len(np.unique(job[is_known]))
    made = StartTrees(scheduler=scheduler, seq=seq, at=at, n_rows=len(rows), n_jobs=n_jobs, data=b"", digest="")
    trees = train(unpacked([row.facts for row in rows]), np.log(np.array(waits_s) + SHIFT_S), is_known, job)
    if trees is not None:
        made.data, made.digest = save_trees(trees, _inputs(made))
    return made


def _inputs(stored: StartTrees) -> dict[str, Any]:
    rows = {"report": stored.seq, "to": stored.at.isoformat(), "days": SPAN.days, "most": MOST_TRAINING_ROWS}
    return {"scheduler": stored.scheduler_id, **rows, "rows": stored.n_rows, "jobs": stored.n_jobs}


def _can_be_read(stored: StartTrees) -> bool:
    try:
        return not stored.digest or bool(load_trees(stored.data, stored.digest, _inputs(stored)))
    except CorruptBlob:
        return False


def _settled_rows(scheduler: Scheduler, seq: int, at: datetime) -> list[_Row]:
    """The newest rows of which a report knew how long the job waited, at least in part; the oldest first.

    The first level is the first to break.
    """
    is_settled = Q(left_in__lte=seq) | Q(settled_in__0__lte=seq) | (~Q(cause="") & Q(withdrawn_at__lte=at))
    rows = StartPromise.objects.filter(is_settled, scheduler=scheduler, made_at__gt=at - SPAN, facts__isnull=False)
    newest = rows.order_by("-made_at", "-pk").values_list(*_Row._fields)[:MOST_TRAINING_ROWS]
    return [row for row in map(_Row._make, reversed(newest)) if is_of_layout(row.facts)]


def _end(row: _Row, seq: int, at: datetime) -> tuple[datetime, bool]:
    """Until when the job of a promise waited, as report `seq` left it, and whether it started then.

    If not, it waited at least until then: to its last broken deadline, or until it left or was withdrawn.
    """
    has_left = row.left_in is not None and row.left_in <= seq
    if row.cause and row.withdrawn_at is not None and row.withdrawn_at <= at:
        return min(row.withdrawn_at, row.left_at if has_left and row.left_at else row.withdrawn_at), False
    if has_left and row.left_at is not None:
        return row.left_at, bool(row.has_started)
    is_broken = [
        outcome in _BROKEN and report is not None and report <= seq
        for outcome, report in zip(row.outcomes, row.settled_in, strict=True)
    ]
    bounds_s = (bound_s for bound_s, broken in zip(row.bounds_s, is_broken, strict=True) if broken)
    return row.made_at + timedelta(seconds=max(bounds_s, default=0.0)), False
