"""Rows of promises and what became of them: settled by start times, and replayed in their order.

Within a report what became of earlier promises comes first, by instant, then what is promised. Each event is a function
of one row, so that the rows alone give again what was learned.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from apps.contrib.starts.models import Outcome, StartPromise
from apps.contrib.starts.prediction import promises as pure
from apps.contrib.starts.prediction.predictor import Predictor
from apps.contrib.starts.prediction.promises import FLOOR_S, LEVELS, Promise, WaitingJob
from apps.contrib.starts.prediction.soon import counter_of

_SETTLES, _SOON, _LEAVES = range(3)
_APART = {Outcome.KEPT: Outcome.KEPT_APART, Outcome.BROKEN: Outcome.BROKEN_APART}
_TAUGHT = {Outcome.KEPT: pure.Outcome.KEPT, Outcome.BROKEN: pure.Outcome.BROKEN}


class Event(NamedTuple):
    """Something that a report brought for a row: ordered by report, then instant, kind, row and level."""

    report: int
    at_s: float
    kind: int
    row: int
    level: int


def job_of(row: StartPromise) -> WaitingJob:
    return WaitingJob(row.user, row.cpus, row.limit_s, row.partition)


def promise_of(row: StartPromise) -> Promise:
    offers = tuple((base, tuple(bounds_s)) for base, bounds_s in row.offers)
    return Promise(job_of(row), row.made_at.timestamp(), row.age_s, tuple(row.bounds_s), row.basis, offers)


def deadline(row: StartPromise, level: int) -> datetime:
    return row.made_at + timedelta(seconds=row.bounds_s[level])


def planned_deadline(row: StartPromise) -> datetime | None:
    return None if row.planned_s is None else row.made_at + timedelta(seconds=row.planned_s)


def settle_promise(row: StartPromise, report: int, *, waited_until: datetime | None) -> None:
    """Settle what is certain. waited_until: the job waited until then for certain; None once it left.

    Of a job that left without a start that anybody knows, what was due while it still waited is broken.
    """
    for level in range(len(LEVELS)):
        if row.outcomes[level] == Outcome.OPEN:
            outcome = _outcome(row, deadline(row, level), waited_until)
            if outcome != Outcome.OPEN:
                row.outcomes[level] = outcome
                row.settled_in[level] = report
    planned_at = planned_deadline(row)
    if planned_at is not None and row.planned_outcome == Outcome.OPEN:
        row.planned_outcome = _outcome(row, planned_at, waited_until)
        row.planned_in = None if row.planned_outcome == Outcome.OPEN else report
    if row.soon is not None and row.was_soon is None:
        soon = _outcome(row, row.made_at + timedelta(seconds=FLOOR_S), waited_until, is_apart=False)
        if soon in (Outcome.KEPT, Outcome.BROKEN):
            row.was_soon, row.soon_in = soon == Outcome.KEPT, report
    row.due_at = _due_at(row)


def _outcome(
    row: StartPromise, deadline_at: datetime, waited_until: datetime | None, *, is_apart: bool | None = None
) -> Outcome:
    is_withdrawn = bool(row.cause) if is_apart is None else is_apart
    if waited_until is not None:
        outcome = Outcome.BROKEN if waited_until > deadline_at else Outcome.OPEN
    elif row.left_at is not None and row.left_at > deadline_at:
        outcome = Outcome.BROKEN
    else:
        outcome = Outcome.KEPT if row.has_started else Outcome.LEFT
    return _APART.get(outcome, outcome) if is_withdrawn else outcome


def _due_at(row: StartPromise) -> datetime | None:
    if row.left_at is not None:
        return None
    ends = [deadline(row, level) for level in range(len(LEVELS)) if row.outcomes[level] == Outcome.OPEN]
    if row.planned_outcome == Outcome.OPEN and (planned_at := planned_deadline(row)) is not None:
        ends.append(planned_at)
    if row.soon is not None and row.was_soon is None:
        ends.append(row.made_at + timedelta(seconds=FLOOR_S))
    return min(ends, default=None)


def events_of(row: StartPromise, *, after: int = 0) -> Iterator[Event]:
    """What reports behind number `after` brought for it."""
    promise = promise_of(row)
    left_s = math.inf if row.left_at is None else row.left_at.timestamp()
    for level, report in enumerate(row.settled_in):
        if report is not None and report > after:
            yield Event(report, promise.settled_s(level, left_s), _SETTLES, row.pk, level)
    if row.soon_in is not None and row.soon_in > after:
        yield Event(row.soon_in, min(promise.made_s + FLOOR_S, left_s), _SOON, row.pk, 0)
    if row.left_in is not None and row.left_in > after:
        yield Event(row.left_in, left_s, _LEAVES, row.pk, 0)


def learn(predictor: Predictor, event: Event, row: StartPromise) -> None:
    """Teach one event of this row."""
    promise = promise_of(row)
    if event.kind == _SETTLES:
        outcome = _TAUGHT.get(Outcome(row.outcomes[event.level]), pure.Outcome.WITHDRAWN)
        predictor.learn(promise, event.level, outcome)
    elif event.kind == _SOON:
        counter = counter_of(promise.job, others_wait=row.others_wait)
        predictor.count_soon(promise, counter, started=bool(row.was_soon))
    elif row.left_at is not None:
        if not row.cause:
            predictor.left(promise, row.left_at.timestamp(), started=bool(row.has_started))
        if row.is_first and row.has_started and _waited_since_submission(row):
            predictor.started(promise.job, max((row.left_at - row.since_at).total_seconds(), 0.0))


def _waited_since_submission(row: StartPromise) -> bool:
    """Whether its wait is that of a job that is submitted. That of an array of which tasks run began when the last one
    of them started: an array of thousands would fill what is known of recent waits with minutes.
    """
    return row.submit_at is None or row.since_at <= row.submit_at


def replay_rows(predictor: Predictor, rows: Iterable[StartPromise], *, after: int = 0, until: float = math.inf) -> None:
    """Teach what reports behind number `after`, up to `until`, brought, and count what they promised, in order."""
    by_pk = {row.pk: row for row in rows}
    brought = (event for row in by_pk.values() for event in events_of(row, after=after))
    events = sorted(event for event in brought if event.report <= until)
    made = sorted((row.made_in, row.pk) for row in by_pk.values() if after < row.made_in <= until)
    place = 0
    for event in events:
        while place < len(made) and made[place][0] < event.report:
            predictor.count(promise_of(by_pk[made[place][1]]))
            place += 1
        learn(predictor, event, by_pk[event.row])
    for _report, pk in made[place:]:
        predictor.count(promise_of(by_pk[pk]))
