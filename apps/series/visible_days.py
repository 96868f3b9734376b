"""Decides which days of which entries a reader may see, applying the suppression rule to each day separately.

A day of an entry that a reader sees only as a sum is visible if two conditions hold. At least five members were active
on it, none of them with more than four fifths of the usage. And the remainder of its parent, beside the visible
children, meets the same rule or is empty. Entries visible in full show every day; others only finished days.

A day is visible as a whole or not at all, including the level at its end. The difference of two levels is a sum of
days, and on the latest of these five people were active in every remainder.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from uuid import UUID

import numpy as np
from django.conf import settings

from apps.priorities.selectors.rows import PolicyView
from apps.priorities.suppression import is_large_enough, members_below
from apps.series.daily_series import F8, DailySeries, Mask, SeriesDays
from apps.series.stored_series import load_children, load_series

_TOLERANCE = 1e-9  # relative: a smaller own usage of the parent is rounding error
_DELAY_S = 600.0  # after its end a day is hidden for this long


def visible_days(series: DailySeries, *, view: PolicyView) -> Mask:
    """Mask (entries, days): whether the view's actor may see numbers of the entry on the day.

    Siblings, and those of ancestors, are loaded only for readers of sums.
    """
    n_days = len(series.days.on)
    visible = np.zeros((len(series.uids), n_days), dtype=np.bool_)
    visibility = view.visibility
    days = _DayVisibility(view, series.days)
    for row, uid in enumerate(series.uids):
        i = view.tree.index_of_uid(uid)
        if i is None or not visibility.may_see(i):
            continue
        visible[row] = True if visibility.outright[i] else days.visible_on(i)
    return visible


def as_visible(series: DailySeries, *, view: PolicyView) -> tuple[DailySeries, Mask]:
    """Return the series, with amounts of entries seen as sums rounded to two digits, and `visible_days`.

    A day is recomputed when records arrive late, and these often belong to one person. A reader who compares two
    responses could see the difference. With two digits only a change of a twentieth of the sum is visible, and only
    roughly.
    """
    outright = [i is not None and bool(view.visibility.outright[i]) for i in map(view.tree.index_of_uid, series.uids)]
    rows = ~np.array(outright, dtype=np.bool_)
    if not rows.any():
        return series, visible_days(series, view=view)

    def rounded(amounts: F8) -> F8:
        return np.where(rows[:, None], _two_digits(amounts), amounts)

    coarse = replace(
        series,
        used=rounded(series.used),
        peers_used=rounded(series.peers_used),
        decayed=rounded(series.decayed),
        peers_decayed=rounded(series.peers_decayed),
        waited_core_s=rounded(series.waited_core_s),
    )
    return coarse, visible_days(series, view=view)


def _two_digits(values: F8) -> F8:
    size = 10.0 ** (np.floor(np.log10(np.where(values > 0, values, 1.0))) - 1)
    return np.round(values / size) * size


@dataclass
class _EntryDays:
    """Activity of some entries by day; arrays (entries, days)."""

    uids: tuple[UUID, ...]
    n_active: F8
    used: F8
    largest: F8
    exists: Mask

    def row(self, uid: UUID) -> _EntryDays:
        at = self.uids.index(uid)
        here = slice(at, at + 1)
        return _EntryDays((uid,), self.n_active[here], self.used[here], self.largest[here], self.exists[here])


@dataclass
class _DayVisibility:
    """Decides from the root down, once for each group of siblings."""

    view: PolicyView
    days: SeriesDays
    visible: dict[int, Mask] = field(default_factory=dict)  # by entry index: (days,)
    numbers: dict[int, _EntryDays] = field(default_factory=dict)

    def visible_on(self, i: int) -> Mask:
        if not self.days.on:
            return np.zeros(0, np.bool_)
        for above in (*self.view.tree.ancestors(i), i):
            if above not in self.visible:
                self._decide(above)
        return self.visible[i] & (self.days.ends_s <= self.view.now.timestamp() - _DELAY_S)

    def _decide(self, i: int) -> None:
        tree = self.view.tree
        if i == 0:
            numbers = self._aligned(load_series(self.view.policy, [tree.uuid(0)], **self._span))
            self.numbers[0] = numbers
            self.visible[0] = np.ones(len(self.days.on), np.bool_) if self._is_outright(0) else _meets_rule(numbers)[0]
            return
        parent = int(tree.parent[i])
        uid = tree.uuid(parent)
        children = self._aligned(load_children(self.view.policy, uid, **self._span))
        self._decide_children(parent, children)
        self.visible.setdefault(i, np.zeros(len(self.days.on), dtype=np.bool_))  # not in the series yet

    @property
    def _span(self) -> dict[str, date]:
        return {"from_on": min(self.days.on), "to_on": max(self.days.on)}

    def _is_outright(self, i: int) -> bool:
        """Whether the entry or any below it is visible in full; a token may be restricted to a subtree."""
        outright = self.view.visibility.outright
        return any(bool(outright[part.start : part.stop].any()) for part in self.view.tree.subtree(i))

    def _decide_children(self, parent: int, children: _EntryDays) -> None:
        tree, above = self.view.tree, self.numbers[parent]
        indices = [tree.index_of_uid(uid) for uid in children.uids]
        outright = np.array([i is not None and self._is_outright(i) for i in indices], dtype=np.bool_)
        wanted = np.array([i is not None and self._is_wanted(i) for i in indices], dtype=np.bool_) & ~outright
        candidates = wanted[:, None] & _meets_rule(children) & self.visible[parent]
        people = np.array([i is None or bool(members_below(tree)[i]) for i in indices], dtype=np.bool_)
        direct = np.maximum(above.used[0] - children.used.sum(axis=0), 0.0)
        direct = np.where(direct > _TOLERANCE * above.used[0], direct, 0.0)
        has_people = people[:, None] & children.exists | (children.used > 0)
        visible = _suppress_remainder(children, candidates, has_people & ~outright[:, None], direct) | outright[:, None]
        for row, i in enumerate(indices):
            if i is not None:
                self.visible[i], self.numbers[i] = visible[row], children.row(children.uids[row])

    def _is_wanted(self, i: int) -> bool:
        mask = self.view.visibility.mask
        return any(bool(mask[part.start : part.stop].any()) for part in self.view.tree.subtree(i))

    def _aligned(self, series: DailySeries) -> _EntryDays:
        """Align a series to the requested days; missing days are zero and hidden."""
        at = {on: index for index, on in enumerate(series.days.on)}
        indices = np.array([at.get(on, -1) for on in self.days.on], dtype=np.int64)
        there = indices >= 0
        n_active, used, largest = (
            np.where(there, column[:, np.maximum(indices, 0)], 0.0)
            if len(at)
            else np.zeros((len(series.uids), len(there)))
            for column in (series.n_active.astype(np.float64), series.used, series.largest)
        )
        exists = np.zeros(used.shape, np.bool_) if not at else series.exists[:, np.maximum(indices, 0)] & there
        alone = (n_active == 0) & (used > 0)  # usage of a member itself
        return _EntryDays(series.uids, np.where(alone, 1.0, n_active), used, np.where(alone, used, largest), exists)


def _meets_rule(entry_days: _EntryDays) -> Mask:
    smallest = int(settings.FAIRSHARE_SMALLEST_GROUP)
    return is_large_enough(entry_days.n_active, entry_days.used, entry_days.largest, smallest=smallest)


def _suppress_remainder(children: _EntryDays, candidates: Mask, has_people: Mask, direct: F8) -> Mask:
    """For each day, hide the smallest candidates, as few as make the remainder meet the rule."""
    visible, smallest = candidates.copy(), int(settings.FAIRSHARE_SMALLEST_GROUP)
    by_size = np.argsort(np.where(candidates, children.used, np.inf), axis=0, kind="stable")
    for nth in range(len(by_size) + 1):
        rest = has_people & ~visible
        left = [np.where(rest, column, 0.0) for column in (children.n_active, children.used, children.largest)]
        n_active, used = left[0].sum(axis=0) + (direct > 0), left[1].sum(axis=0) + direct
        largest = np.maximum(left[2].max(axis=0, initial=0.0), direct)
        is_safe = is_large_enough(n_active, used, largest, smallest=smallest)
        is_safe |= ~rest.any(axis=0) & (direct == 0)
        open_days = ~is_safe & visible.any(axis=0)
        if nth == len(by_size) or not open_days.any():
            break
        visible[by_size[nth, open_days], open_days] = False
    return visible & is_safe if len(by_size) else visible
