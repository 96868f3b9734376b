"""A queue as its scheduler's agent would list it: jobs with their true starts, seen at some instants."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.queue_state import QueueJob, QueueState
from apps.contrib.starts.models import StartState
from apps.contrib.starts.prediction import saved
from apps.contrib.starts.prediction.predictor import Predictor
from apps.contrib.starts.prediction.recent_waits import LEAST_FOR_QUANTILES, RecentWaits
from apps.contrib.starts.reports import take_queue
from tests.instants import AT

MINUTE = timedelta(minutes=1)
_AGES = 12  # classes of waits


def know_waits(scheduler: Scheduler, wait_s: float = 3_600.0) -> None:
    """Before the first report, as if enough jobs of each age had waited that long to promise others a start."""
    waits = RecentWaits({(age,): [wait_s] * LEAST_FOR_QUANTILES for age in range(_AGES)})
    data, digest = saved.save(Predictor(waits=waits))
    known = {"data": data, "digest": digest, "opening": data, "opening_digest": digest}
    StartState.objects.create(scheduler=scheduler, **known)


class TrueJob(NamedTuple):
    """Minutes from AT. start: None for a job that never starts; end: of its run, or when it is cancelled."""

    job: str
    submit: float
    start: float | None
    end: float
    user: str = "ada"
    cpus: float = 4.0
    limit_s: float | None = 7_200.0

    @property
    def start_at(self) -> datetime | None:
        return None if self.start is None else AT + self.start * MINUTE


def waiting(job: str = "1", **more: Any) -> QueueJob:
    fields: dict[str, Any] = {
        "user": "ada", "account": "physics", "partition": "batch", "qos": "", "state": "waiting", "cpus": 4.0,
        "gpus": {}, "nodes": 1, "limit_s": 7_200.0, "submit_at": AT, "start_at": None, "begin_at": None,
        "planned_at": None, "dependency": False, "reason": "Priority", "priority": 1.0,
    }  # fmt: skip
    return QueueJob(job, **{**fields, **more})


def running(job: str = "1", *, start_at: datetime, **more: Any) -> QueueJob:
    return waiting(job, state="running", start_at=start_at, reason="", **more)


def listing(jobs: Iterable[TrueJob], minute: float, skew: timedelta = timedelta(0)) -> QueueState:
    """What is listed at a true minute by an agent whose clock is ahead by `skew`."""
    listed = []
    for each in jobs:
        facts: dict[str, Any] = {"user": each.user, "cpus": each.cpus, "limit_s": each.limit_s}
        facts["submit_at"] = AT + each.submit * MINUTE
        left = each.end if each.start is None else each.start
        if each.submit <= minute < left:
            listed.append(waiting(each.job, **facts))
        elif each.start is not None and each.start <= minute < each.end:
            listed.append(running(each.job, start_at=AT + each.start * MINUTE, **facts))
    return QueueState(AT + minute * MINUTE + skew, tuple(listed), has_running=True)


class Reports:
    """Listings of one scheduler, each with the one before it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler, self.before = scheduler, None

    before: QueueState | None

    def take(self, now: QueueState) -> None:
        take_queue(self.scheduler, self.before, now)
        self.before = now

    def at(self, minute: float, *jobs: QueueJob, **more: Any) -> None:
        fields = {"has_running": True, "has_reservations": "reservations" in more, **more}
        self.take(QueueState(AT + minute * MINUTE, jobs, **fields))
