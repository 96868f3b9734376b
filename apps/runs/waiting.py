"""What a run that waits says: behind what, in which place, or for whom.

Pages, REST and commands that name the state of a run take it from here, so that none calls a waiting run at work.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from apps.runs.kinds import kinds_in_turn, limits_by_key, title_of
from apps.runs.models import Run
from apps.runs.presence import live_processes
from apps.runs.queues import kinds_on, queue_of

Reason = Literal["again", "due", "same", "limit", "queue", "worker", "no_worker"]


@dataclass(frozen=True, slots=True)
class RunWaiting:
    """Why a run has not begun."""

    reason: Annotated[
        Reason,
        "again: it failed, and is tried again; due: until its time; same: one of its kind is at work on its subject; "
        "limit: as many of its owner or host run as may; queue: others of its queue are before it; worker: no worker "
        "has taken it yet; no_worker: none serves its queue",
    ]
    sentence: Annotated[str, "The same in words"]
    behind: Annotated[str | None, "Kind of the run at work, or first in its queue; null: none is before it"]
    place: Annotated[int | None, "Among those that wait in its queue, from 1; null: kinds take turns, or it isn't due"]


def waiting_of(run: Run | None, *, at: datetime) -> RunWaiting | None:
    """None unless the run waits."""
    if run is None or run.state != Run.State.QUEUED:
        return None
    if run.due_at > (at if run.attempts else max(at, run.created_at)):
        if run.attempts:
            return RunWaiting("again", _("It failed, and waits to be tried again."), None, None)
        return RunWaiting("due", _("It waits until it is due."), None, None)
    others = Run.objects.filter(kind=run.kind, state=Run.State.RUNNING).exclude(pk=run.pk)
    ahead = _ahead(run, at)
    place = _place(run, ahead, at)
    if others.filter(subject=run.subject).exists():
        return RunWaiting("same", _("It waits for the end of the one before it."), run.kind, place)
    most = limits_by_key().get(run.kind)
    if most is not None and run.limit_key and others.filter(limit_key=run.limit_key).count() >= most:
        sentence = _("It waits: of one owner or host, at most %(n)s run at once.") % {"n": most}
        return RunWaiting("limit", sentence, run.kind, place)
    at_work = Run.objects.filter(state=Run.State.RUNNING).order_by("started_at", "pk").values_list("kind", flat=True)
    behind = at_work.filter(kind__in=_kinds_beside(run)).first() or ahead.values_list("kind", flat=True).first()
    if behind is not None:
        return RunWaiting("queue", _sentence_of_queue(behind, place), behind, place)
    return _for_worker(run, at_work.first(), place)


def _for_worker(run: Run, busy_with: str | None, place: int | None) -> RunWaiting:
    if busy_with is not None:
        sentence = _("It waits for a worker; one is busy with %(what)s.") % {"what": title_of(busy_with)}
        return RunWaiting("worker", sentence, busy_with, place)
    if not any(queue_of(run.kind) in process.queues for process in live_processes()):
        return RunWaiting("no_worker", _("It waits for a worker, and none is running."), None, place)
    return RunWaiting("worker", _("It waits for a worker."), None, place)


def _sentence_of_queue(behind: str, place: int | None) -> str:
    if place is None:
        return _("It waits in its queue behind %(what)s.") % {"what": title_of(behind)}
    return _("It waits in its queue behind %(what)s, as number %(n)s.") % {"what": title_of(behind), "n": place}


def _kinds_beside(run: Run) -> set[str]:
    """Kinds that wait on the same queue."""
    return {*kinds_on(queue_of(run.kind)), run.kind}


def _due(run: Run, at: datetime) -> QuerySet[Run]:
    """Runs that wait on its queue, the run among them."""
    return Run.objects.filter(state=Run.State.QUEUED, kind__in=_kinds_beside(run), due_at__lte=at)


def _ahead(run: Run, at: datetime) -> QuerySet[Run]:
    """Those that are due before it, in their order."""
    before = Q(due_at__lt=run.due_at) | Q(due_at=run.due_at, pk__lt=run.pk)
    return _due(run, at).filter(before).order_by("due_at", "pk")


def _place(run: Run, ahead: QuerySet[Run], at: datetime) -> int | None:
    """None where kinds of its queue take turns and others than its own wait: they begin in another order."""
    if kinds_in_turn(run.kind) and _due(run, at).exclude(kind=run.kind).exists():
        return None
    return ahead.count() + 1
