"""Records about one's own account: its rank over time, its position among all accounts, and the waits of its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID

N_BINS = 20


@dataclass(frozen=True, slots=True)
class RankOnDay:
    """One day: rank 1..of and factor 0..1 of the account; None if it had none, or no entry."""

    on: date
    as_of: datetime
    revision: int
    rank: int | None
    of: int
    factor: float | None


@dataclass(frozen=True, slots=True)
class PublishedRevision:
    """A revision published during the period."""

    number: int
    at: datetime


@dataclass(frozen=True)
class RankHistory:
    """Days oldest first; the last one is that of the newest snapshot. step: interval in days between the days read."""

    policy_slug: str
    policy_name: str
    account: str
    entry_uid: UUID
    entry_name: str
    as_of: datetime
    revision: int
    days: tuple[RankOnDay, ...]
    published: tuple[PublishedRevision, ...]
    step: int = 1


@dataclass(frozen=True, slots=True)
class Bin:
    """Number of ranked leaves with low ≤ factor < high, one's own included; the last bin includes its upper end."""

    low: float
    high: float
    n: int
    is_mine: bool


@dataclass(frozen=True)
class MyPosition:
    """Position of one account in the newest snapshot. rank, factor: None for an unranked account.

    n_same: others of equal rank. bins: of factors whose differences are meaningful; empty if there are too few others.
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
    smallest: int
    bins: tuple[Bin, ...]

    @property
    def n_behind(self) -> int:
        return 0 if self.rank is None else self.of - self.rank - self.n_same


@dataclass(frozen=True, slots=True)
class WaitDay:
    """Jobs of one account that started on a day in the site's time zone; waits in seconds.

    deviation: actual − target of the level at the start of the day, None if unknown.
    """

    on: date
    n_jobs: int
    median_s: float
    longest_s: float
    deviation: float | None


@dataclass(frozen=True, slots=True)
class PooledWaits:
    """Waits of all days on one side of the target."""

    n_days: int
    n_jobs: int
    median_s: float


@dataclass(frozen=True)
class MyWaits:
    """Days oldest first, without days on which no job started. knows_waits: the sources report submit times.

    over, under: None if no job started on such a day. n_left_out: number of jobs reported by a source without submit
    times.
    """

    policy_slug: str
    policy_name: str
    account: str
    level_name: str
    parent_name: str
    revision: int
    days: tuple[WaitDay, ...]
    over: PooledWaits | None
    under: PooledWaits | None
    knows_waits: bool
    n_left_out: int
