"""How old the usage behind a scheduler's values is: from the snapshot through the agent's pass until now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from apps.contrib.schedulers.models import AgentPass, Scheduler

HOURS = 24
Part = Literal["snapshot", "pass", "wait"]


@dataclass(frozen=True, slots=True)
class Lag:
    """Seconds of each part: age of the snapshot when the agent read it, duration of the pass, time since its end."""

    snapshot_s: float
    pass_s: float
    wait_s: float

    @property
    def total_s(self) -> float:
        return self.snapshot_s + self.pass_s + self.wait_s

    @property
    def slowest(self) -> Part:
        parts: dict[Part, float] = {"snapshot": self.snapshot_s, "pass": self.pass_s, "wait": self.wait_s}
        return max(parts, key=lambda part: parts[part])

    @property
    def slowest_s(self) -> float:
        return max(self.snapshot_s, self.pass_s, self.wait_s)


@dataclass(frozen=True, slots=True)
class PassLag:
    """A pass: when it ended, seconds from the usage to the scheduler (None: it read no snapshot), and its problem.

    frozen_code: empty if it sent what was due.
    """

    ended_at: datetime
    lag_s: float | None
    frozen_code: str
    failed: int

    @property
    def is_bad(self) -> bool:
        return bool(self.frozen_code or self.failed)


def current_lag(scheduler: Scheduler, last: AgentPass | None, at: datetime) -> Lag | None:
    """Lag of the last pass that wasn't frozen; None before the first that read a snapshot.

    In shadow mode of what the scheduler would have.
    """
    if last is not None and (last.frozen_code or last.snapshot_age_s is None):
        complete = AgentPass.objects.filter(scheduler=scheduler, frozen_code="", snapshot_age_s__isnull=False)
        last = complete.order_by("-id").first()
    if last is None or last.snapshot_age_s is None:
        return None
    return Lag(
        last.snapshot_age_s,
        max((last.ended_at - last.started_at).total_seconds(), 0.0),
        max((at - last.ended_at).total_seconds(), 0.0),
    )


def list_pass_lags(scheduler: Scheduler, at: datetime) -> list[PassLag]:
    """Passes of the last 24 hours, oldest first."""
    passes = AgentPass.objects.filter(scheduler=scheduler, received_at__gt=at - timedelta(hours=HOURS)).order_by("id")
    rows = passes.values_list("started_at", "ended_at", "snapshot_age_s", "frozen_code", "failed")
    return [
        PassLag(
            ended_at,
            None if age_s is None else age_s + max((ended_at - started_at).total_seconds(), 0.0),
            frozen_code,
            failed,
        )
        for started_at, ended_at, age_s, frozen_code, failed in rows
    ]


def last_bad_pass(scheduler: Scheduler) -> AgentPass | None:
    """The newest kept pass that froze, or in which a value was refused."""
    passes = AgentPass.objects.filter(scheduler=scheduler).order_by("-id")
    frozen = passes.exclude(frozen_code="").first()
    failed = passes.filter(failed__gt=0).first()
    return max((each for each in (frozen, failed) if each is not None), key=lambda each: each.pk, default=None)


def longest(lags: Sequence[PassLag]) -> PassLag | None:
    """The pass with the longest lag."""
    known = [each for each in lags if each.lag_s is not None]
    return max(known, key=lambda each: each.lag_s or 0.0, default=None)
