"""What is known of one's own account: its rank over time, its place among all, and how long its jobs waited."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID

N_BINS = 20


@dataclass(frozen=True, slots=True)
class RankThen:
    """One day: rank 1..of and factor 0..1 of the account; None where it had none, or no entry."""

    on: date
    as_of: datetime
    revision: int
    rank: int | None
    of: int
    factor: float | None


@dataclass(frozen=True, slots=True)
class PublishedThen:
    """A revision that became current within the days."""

    number: int
    at: datetime


@dataclass(frozen=True)
class RankHistory:
    """Days oldest first; the last one is that of the newest snapshot. step: every how many days one was read."""

    policy_slug: str
    policy_name: str
    account: str
    entry_uid: UUID
    entry_name: str
    as_of: datetime
    revision: int
    days: tuple[RankThen, ...]
    published: tuple[PublishedThen, ...]
    step: int = 1


@dataclass(frozen=True, slots=True)
class Bin:
    """Ranked leaves with low ≤ factor < high, one's own included; the last bin includes its end."""

    low: float
    high: float
    n: int
    is_mine: bool


@dataclass(frozen=True)
class MyPlace:
    """Of one account in the newest snapshot. factor: None, as rank, for an account without a rank.

    n_same: others of equal rank. is_from_key: the policy's factor is made from the rank, which has no distances, so
    the bins are those of the factor that the vector's key gives. bins: none where there are too few others.
    """

    policy_slug: str
    policy_name: str
    account: str
    as_of: datetime
    revision: int
    rank: int | None
    of: int
    n_same: int
    factor: float | None
    is_from_key: bool
    smallest: int
    bins: tuple[Bin, ...]

    @property
    def n_behind(self) -> int:
        return 0 if self.rank is None else self.of - self.rank - self.n_same


@dataclass(frozen=True, slots=True)
class WaitDay:
    """Jobs of one account that started on a day of the site's zone; waits in seconds.

    deviation: actual − target of the level at the beginning of the day, None where it isn't known.
    """

    on: date
    n_jobs: int
    median_s: float
    longest_s: float
    deviation: float | None


@dataclass(frozen=True, slots=True)
class Waited:
    """Jobs of all days on one side of the target together."""

    n_days: int
    n_jobs: int
    median_s: float


@dataclass(frozen=True)
class MyWaits:
    """Days oldest first, those without a job left out. knows_waits: the sources report when jobs were submitted.

    over, under: None where no job started on such a day. n_left_out: jobs that a source without submissions reported.
    """

    policy_slug: str
    policy_name: str
    account: str
    level_name: str
    parent_name: str
    revision: int
    days: tuple[WaitDay, ...]
    over: Waited | None
    under: Waited | None
    knows_waits: bool
    n_left_out: int
