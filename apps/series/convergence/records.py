"""Records of convergence queries and results, used by pages, REST, commands and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cached_property

import numpy as np

from apps.policies.settings import PolicySettings
from apps.priorities.records import EntryRow
from apps.series.convergence.messages import Sentence
from apps.series.convergence.periods import Period
from apps.series.convergence.query import BEFORE_ENTRY, DECAYED, PARENT, Member
from apps.series.convergence.share_methods import ShareMethod
from apps.series.convergence.verdict import MeritFigures as MeritFigures
from apps.series.convergence.verdict import States
from apps.series.daily_series import F8, Mask, SeriesDays, SeriesState


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildrenQuery:
    """The children of an entry, or the entry alone, up to the newest snapshot.

    itself: the entry alone. by_hour: the last seven days by the hour; `period` is then ignored. against_today: compare
    all days with the head revision instead of the one current on each day.
    """

    period: Period
    method: ShareMethod
    by_hour: bool = False
    against_today: bool = False
    itself: bool = False

    @property
    def is_projected(self) -> bool:
        """Whether projections, which priorities come from, are about these shares."""
        is_usual = self.method.view == DECAYED and self.method.of == PARENT
        return is_usual and not (self.by_hour or self.against_today)


@dataclass(frozen=True, slots=True)
class Published:
    """A revision published in the period. `day` is its index among the days, −1 where that day isn't built."""

    revision: int
    at: datetime
    on: date
    day: int


@dataclass(frozen=True, eq=False)
class Convergence:
    """Actual and target shares of members by day. actual, target: fractions, NaN where unknown, not competing or
    hidden.

    slack: half the width of the tolerance band around the target. states: of each day, "" where unknown or hidden.
    visible: which days the reader may see. n_all: number of members before the smallest were left out. gaps: names of
    sources without data, by day. itself: members has the entry alone, not its children.
    """

    policy_slug: str
    policy_name: str
    revision: int
    settings: PolicySettings
    entry: EntryRow
    ancestors: list[EntryRow]
    itself: bool
    period: Period
    method: ShareMethod
    state: SeriesState
    members: list[Member]
    n_all: int
    days: SeriesDays
    actual: F8
    target: F8
    slack: F8
    states: States
    visible: Mask
    idle: Mask  # days without a running or waiting job
    idle_inferred: Mask  # days without a running job, where waiting jobs aren't reported
    figures: MeritFigures
    verdict: list[Sentence]
    published: list[Published]
    gaps: Mapping[date, Sequence[str]] = field(default_factory=dict)
    local_only: list[Sentence] = field(default_factory=list)  # about days compared by local usage only
    measured_against: int | None = None  # revision of the head if all days are compared with it
    latest_at: datetime | None = None  # time of the snapshot if the last point is one, else None

    @cached_property
    def before_entry(self) -> Mask:
        """Mask of days whose revision is older than the entry."""
        before_entry: Mask = self.states == BEFORE_ENTRY
        return before_entry

    @cached_property
    def missing(self) -> Mask:
        """Mask of days without usage of a source or a peer."""
        return np.array([on in self.gaps for on in self.on], np.bool_)

    @property
    def on(self) -> tuple[date, ...]:
        return self.days.on

    @property
    def n_finished(self) -> int:
        """Number of finished days or hours: all points but the newest snapshot's."""
        return len(self.on) - (self.latest_at is not None)

    @cached_property
    def deviation(self) -> F8:
        deviation: F8 = self.actual - self.target
        return deviation

    @property
    def is_built(self) -> bool:
        return self.state.through_on is not None

    @property
    def is_by_hour(self) -> bool:
        return bool(self.on) and isinstance(self.on[0], datetime)

    def order(self) -> list[int]:
        """Return rows by distance from target on their last known finished day, furthest first, unknown ones last.

        The newest snapshot is left out, so that rows do not move on the page while it changes.
        """
        return order_by_deviation(self.members, self.deviation[:, : self.n_finished])


def order_by_deviation(members: Sequence[Member], deviation: F8) -> list[int]:
    last = [_last_known(row) for row in np.abs(deviation)]
    return sorted(range(len(last)), key=lambda row: (-last[row], members[row].name))


def sample_weekly(convergence: Convergence) -> Convergence:
    """Keep every seventh day, counted back from the last one, to shorten long drawings and lists. Figures of merit stay
    as they are.
    """
    n = len(convergence.on)
    at = np.arange(n - 1, -1, -7)[::-1]
    keep = np.zeros(n, dtype=np.bool_)
    keep[at] = True

    published = [
        replace(row, day=int(np.searchsorted(at, row.day))) if row.day >= 0 else row for row in convergence.published
    ]
    columns = {
        name: getattr(convergence, name)[:, keep]
        for name in ("actual", "target", "slack", "states", "visible", "idle", "idle_inferred")
    }
    return replace(convergence, days=convergence.days.select(at), published=published, **columns)


def _last_known(values: F8) -> float:
    known = np.flatnonzero(np.isfinite(values))
    return float(values[known[-1]]) if known.size else -1.0
