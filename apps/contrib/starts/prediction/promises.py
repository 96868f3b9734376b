"""What a promise is: "starts before T", said for one job at three levels, and when it is settled.

A promise is made when a job is first seen, and again whenever its wait has doubled (after 1, 2, 4, 8 … hours). It is
settled at the earlier of its deadline and the job's start: kept if the job starts by then, broken if it still waits.
So no promise is ever open beyond its own deadline, and the record needs no guess about jobs that still wait.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import NamedTuple

LEVELS = (0.50, 0.80, 0.95)
FLOOR_S = 300.0  # the shortest promise: "within 5 minutes"
CEILING_S = 14 * 86_400.0  # the longest; pages say "more than a week" from MORE_THAN_S on
MORE_THAN_S = 7 * 86_400.0
FIRST_AGE_S = 3_600.0  # of the first promise after the one at submission; each later one at twice the age
_SIZE_BASE, _LENGTH_BASE = 4.0, 4.0
_LENGTH_UNIT_S = 900.0
UNKNOWN_LENGTH = -1
Burst = tuple[str, str, int]


class Kind(StrEnum):
    """When a promise was made: the two are calibrated apart, since a job that still waits is no typical one."""

    SUBMIT = "submit"
    WAITING = "waiting"


class Outcome(StrEnum):
    """withdrawn: the job left the queue before its deadline without a start (cancelled, held, altered)."""

    KEPT = "kept"
    BROKEN = "broken"
    WITHDRAWN = "withdrawn"


class WaitingJob(NamedTuple):
    """What is known of a job when it is submitted. limit_s: the time that it asks for; None if it names none."""

    user: str
    cpus: float
    limit_s: float | None
    queue: str = ""

    @property
    def size(self) -> int:
        """Class of its processors: 0 for 1 to 3, 1 for 4 to 15, 2 for 16 to 63 …"""
        return int(math.log(max(self.cpus, 1.0), _SIZE_BASE) + 1e-9)

    @property
    def length(self) -> int:
        """Class of its limit: 0 below an hour, 1 below 4 hours, 2 below 16 …; UNKNOWN_LENGTH without one."""
        if self.limit_s is None or not 0 < self.limit_s < math.inf:
            return UNKNOWN_LENGTH
        return int(math.log(max(self.limit_s / _LENGTH_UNIT_S, 1.0), _LENGTH_BASE) + 1e-9)


class Promise(NamedTuple):
    """One promise at one instant. bounds_s: seconds from `made_s` at LEVELS, rising, each FLOOR_S to CEILING_S.

    made_s: seconds since 1970. age_s: how long the job had waited. basis: what the bounds were made of. offers: the
    bounds of every base at that instant, of which `bounds_s` are those of the basis.
    """

    job: WaitingJob
    made_s: float
    age_s: float
    bounds_s: tuple[float, ...]
    basis: str
    offers: tuple[tuple[str, tuple[float, ...]], ...] = ()

    @property
    def kind(self) -> Kind:
        return Kind.WAITING if self.age_s > 0 else Kind.SUBMIT

    @property
    def burst(self) -> Burst:
        """Promises of one user within an hour: they are kept or broken together, and count once."""
        return str(self.kind), self.job.user, int(self.made_s // 3_600)

    def settled_s(self, level: int, left_s: float) -> float:
        """When the promise of a level is settled, if the job leaves the queue then; never after its deadline."""
        return min(self.made_s + self.bounds_s[level], max(left_s, self.made_s))

    def outcome(self, level: int, left_s: float, *, started: bool) -> Outcome:
        """What became of it, if the job left the queue at an instant, by its start or otherwise."""
        if left_s > self.made_s + self.bounds_s[level]:
            return Outcome.BROKEN
        return Outcome.KEPT if started else Outcome.WITHDRAWN


def next_age_s(age_s: float) -> float:
    """The wait after which a job that still waits gets its next promise."""
    return FIRST_AGE_S if age_s < FIRST_AGE_S else 2 * age_s
