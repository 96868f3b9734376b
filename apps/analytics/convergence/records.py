"""Convergence as numbers: shares and targets of members by days, read by pages, REST, commands and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime

import numpy as np

from apps.analytics.convergence.messages import Sentence
from apps.analytics.convergence.query import BEFORE_ENTRY, Counting, Member, Period
from apps.analytics.convergence.verdict import Figures, States
from apps.analytics.series.daily_series import F8, Mask, SeriesDays, SeriesState
from apps.policies.settings import PolicySettings
from apps.priorities.records import EntryRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildrenQuery:
    """The children of an entry, or the entry alone, up to the newest snapshot. itself: alone."""

    period: Period
    counting: Counting
    by_hour: bool = False
    against_today: bool = False
    itself: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionQuery:
    """Entries for one picture. picks: uids or paths in their order; none: the usual ones. whole: all that is read."""

    picks: tuple[str, ...]
    period: Period
    whole: Period
    counting: Counting
    by_hour: bool = False


@dataclass(frozen=True, slots=True)
class Published:
    """A revision that was published in the period; `day` is its index among the days, −1 where that isn't built."""

    revision: int
    at: datetime
    on: date
    day: int


@dataclass(frozen=True, eq=False)
class Convergence:
    """Members by days. actual, target: fractions, NaN where unknown, not competing, or hidden.

    slack: half the band around the target. states: of each day, "" where unknown or hidden. n_all: members
    before the smallest were left out.
    gaps: days on which sources are missing, by their names. itself: of the entry alone, not of what is below it.
    """

    policy_slug: str
    policy_name: str
    revision: int
    settings: PolicySettings
    entry: EntryRow
    way: list[EntryRow]
    itself: bool
    period: Period
    counting: Counting
    state: SeriesState
    members: list[Member]
    n_all: int
    days: SeriesDays
    actual: F8
    target: F8
    slack: F8
    states: States
    told: Mask
    idle: Mask  # no job ran or waited
    idle_inferred: Mask  # no job ran, and waiting isn't reported
    figures: Figures
    verdict: list[Sentence]
    published: list[Published]
    gaps: Mapping[date, Sequence[str]] = field(default_factory=dict)
    local_only: list[Sentence] = field(default_factory=list)  # days compared by this site's usage alone
    measured_against: int | None = None  # the head, where all days are measured against it; None: each against its own
    latest_at: datetime | None = None  # of the snapshot that the last point is of; None: all points are of days

    @property
    def before_entry(self) -> Mask:
        """Days from before an entry came."""
        found: Mask = self.states == BEFORE_ENTRY
        return found

    @property
    def on(self) -> tuple[date, ...]:
        return self.days.on

    @property
    def n_over(self) -> int:
        """Days or hours that are over: the points without the newest snapshot's."""
        return len(self.on) - (self.latest_at is not None)

    @property
    def deviation(self) -> F8:
        found: F8 = self.actual - self.target
        return found

    @property
    def is_built(self) -> bool:
        return self.state.through_on is not None

    @property
    def is_by_hour(self) -> bool:
        return bool(self.on) and isinstance(self.on[0], datetime)

    def order(self) -> list[int]:
        """Rows by how far off they are on their last known day that is over, the furthest first; those not known last.

        The newest snapshot changes nothing here, so that what is on a page stays where it is.
        """
        return order_of(self.members, self.deviation[:, : self.n_over])


def order_of(members: Sequence[Member], deviation: F8) -> list[int]:
    last = [_last_known(row) for row in np.abs(deviation)]
    return sorted(range(len(last)), key=lambda row: (-last[row], members[row].name))


@dataclass(frozen=True, eq=False)
class Selection:
    """found: `members` are the picks, in their order; paths: of each, without the root."""

    found: Convergence
    paths: list[str]


def by_weeks(found: Convergence) -> Convergence:
    """Every seventh day counted from the last one: a long period in a drawing or a list; figures stay those of days."""
    n = len(found.on)
    at = np.arange(n - 1, -1, -7)[::-1]
    keep = np.zeros(n, dtype=np.bool_)
    keep[at] = True
    days = found.days
    fewer = SeriesDays(
        tuple(days.on[i] for i in at),
        days.ends_s[at],
        days.revision[at],
        days.is_before_first[at],
        days.root_used[at],
        days.root_decayed[at],
    )
    published = [
        replace(one, day=int(np.searchsorted(at, one.day))) if one.day >= 0 else one for one in found.published
    ]
    columns = {
        name: getattr(found, name)[:, keep]
        for name in ("actual", "target", "slack", "states", "told", "idle", "idle_inferred")
    }
    return replace(found, days=fewer, published=published, **columns)


def _last_known(values: F8) -> float:
    known = np.flatnonzero(np.isfinite(values))
    return float(values[known[-1]]) if known.size else -1.0
