"""What is said of the start of a waiting job: its promises, the first of them, and how often such promises held."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

LEAST_RECENT_SHARE = 0.65  # of the latest promises of 80 % that held; below it, each answer says so


class StartNote(StrEnum):
    """Why a job has no promise, or what its promise doesn't know. Stale and capacity accompany one, others don't."""

    HELD = "held"  # by the user or an administrator
    DEPENDENCY = "dependency"  # it waits for other jobs
    BEGIN_TIME = "begin_time"  # it asks for a later start
    NEVER = "never"  # its partition doesn't admit it as it is
    LEARNING = "learning"  # too few waits of jobs are known to promise anything
    UNKNOWN = "unknown"  # of a job that isn't submitted: nothing that waits is known
    STALE = "stale"  # the agent has not reported for a while: the promise is of the last report
    CAPACITY = "capacity"  # nodes were drained or reserved after the promise


class FirstOutcome(StrEnum):
    OPEN = "open"
    KEPT = "kept"
    BROKEN = "broken"


class Before(NamedTuple):
    """Instants that the job starts before, with 50, 80 and 95 %. None: more than a week ahead."""

    p50: datetime | None
    p80: datetime | None
    p95: datetime | None


class FirstPromise(NamedTuple):
    """The promise of 80 % that a job got first. before_80: None for more than a week.

    settled_at: when it was kept or broken; None while it is open.
    """

    made_at: datetime
    before_80: datetime | None
    outcome: FirstOutcome
    settled_at: datetime | None


class HeldRecord(NamedTuple):
    """How often promises of 80 % like this one held. share: between 0 and 1, of the n settled in the last days.

    share: None without any. recent_share: of the latest ones, at most 300; None while there are too few to judge.
    """

    share: float | None
    n: int
    days: int
    recent_share: float | None

    @property
    def is_low(self) -> bool:
        return self.recent_share is not None and self.recent_share < LEAST_RECENT_SHARE


class StartAnswer(NamedTuple):
    """within_5_min: probability between 0 and 1 that the job starts within 5 minutes of `made_at`, said at submission
    only. before: None without a promise, and then `note` says why. basis: what the promise was made of.

    at_submit: whether it was made within 5 minutes of the submission. first: None for a job that is not submitted yet,
    and for one of which too little was known then.
    n_seen: with `LEARNING` how many waits are known; None if that can't be read. source: usage source whose records
    alone it is made of.
    """

    within_5_min: float | None
    before: Before | None
    made_at: datetime
    at_submit: bool
    basis: str
    first: FirstPromise | None
    held: HeldRecord
    note: StartNote | None
    n_seen: int | None = None
    source: str = ""
