"""The last complete days of siblings: since when each is off its target, and on which days none of its jobs waited. On
the first day their hours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from uuid import UUID

import numpy as np

from apps.engine.convergence import actual_share
from apps.engine.target_state import Side, is_off_target, slack_of
from apps.policies.settings import tolerances_of
from apps.priorities.selectors.rows import PolicyView
from apps.series.convergence.off_target import OffTarget, off_target_since
from apps.series.daily_series import F8, DailySeries, Mask
from apps.series.stored_series import load_hours


@dataclass(frozen=True, slots=True)
class TargetChange:
    """A new target from a day on; fractions 0..1."""

    on: date
    before: float
    after: float


@dataclass(frozen=True, eq=False)
class EntryDays:
    """One entry by complete day, (days,), oldest first. actual: NaN where unknown or hidden; target: 0 where it doesn't
    compete. slack: half the width of its tolerance.

    is_idle: neither usage nor waiting jobs. waits: whether jobs waited, where `knows_waiting`.
    """

    on: tuple[date, ...]
    actual: F8
    target: F8
    slack: F8
    used: F8
    is_idle: Mask
    waits: Mask
    knows_waiting: Mask

    @property
    def is_off(self) -> Mask:
        return is_off_target(self.actual, self.target, self.slack, self.is_idle)

    def off_since(self, side: Side) -> OffTarget | None:
        """Since when it is over or under its target."""
        return off_target_since(self.on, self.actual, self.target, self.slack, self.is_idle, side)

    @property
    def last_used_on(self) -> date | None:
        """The last known day on which anything ran."""
        days = np.flatnonzero((self.used > 0) & np.isfinite(self.actual))
        return self.on[int(days[-1])] if days.size else None

    def count_without_waiting(self, n_days: int) -> tuple[int, int]:
        """(days on which none of its jobs waited, days on which waiting jobs are known) of the last n_days."""
        known = self.knows_waiting[-n_days:]
        return int((known & ~self.waits[-n_days:]).sum()), int(known.sum())

    @property
    def change_that_put_it_off(self) -> TargetChange | None:
        """The last change of its target, if it had been on the former one until then."""
        days = np.flatnonzero(np.diff(self.target) != 0)
        if not days.size:
            return None
        before = int(days[-1])
        was, is_now = float(self.target[before]), float(self.target[before + 1])
        if not was or not is_now or self.is_off[before] or not np.isfinite(self.actual[before]):
            return None
        return TargetChange(self.on[before + 1], was, is_now)


@dataclass(frozen=True, eq=False)
class RecentDays:
    """Days of several siblings. series, visible: as `as_visible` returns them."""

    view: PolicyView
    series: DailySeries
    visible: Mask

    @cached_property
    def counts(self) -> Mask:
        """Mask (entries, days): the entry can be compared, and the reader may see it."""
        return self.visible & self.series.competes & (self.series.peers_decayed > 0)

    @cached_property
    def actual(self) -> F8:
        """Decayed share at each day's end, (entries, days); NaN where it doesn't count."""
        return np.where(self.counts, actual_share(self.series.decayed, self.series.peers_decayed), np.nan)

    @cached_property
    def by_uid(self) -> Mapping[UUID, EntryDays]:
        """By entry, without those that have no known day."""
        series, actual = self.series, self.actual
        tree = self.view.tree
        indices = (tree.index_of_uid(uid) for uid in series.uids)
        is_leaf = np.array([i is not None and not tree.n_children[i] for i in indices], dtype=np.bool_)
        slack = slack_of(series.target, tolerances_of(self.view.settings.tolerance, is_leaf[:, None]))
        waits = series.waited_core_s > 0
        is_idle = (series.decayed == 0) & ~waits
        return {
            uid: EntryDays(
                series.days.on,
                actual[row],
                series.target[row],
                slack[row],
                series.used[row],
                is_idle[row],
                waits[row],
                series.knows_waiting[row],
            )
            for row, uid in enumerate(series.uids)
            if np.isfinite(actual[row]).any()
        }


def hours_of_children(view: PolicyView, at: int) -> RecentDays:
    """The last seven days of an entry's children by complete hour, as far as the reader sees them in full: two sums an
    hour apart may differ by one person's usage.
    """
    children = view.visible_children(at)
    series = load_hours(view.policy, [view.tree.uuid(i) for i in children])
    outright = view.visibility.outright[np.array(children, np.int64)]
    return RecentDays(view, series, np.repeat(outright[:, None], len(series.days.on), axis=1))
