"""Which days of which entries are visible: the rule of five day by day, also under subtraction.

A day is like one more number of suppression: a day of an entry seen by its sum only is shown when five members or
more were active on it, none of them with more than four fifths of it, and the rest of its parent beside the shown
children is as large or empty. Entries visible in full show every day; all others only finished days.

Days are shown whole or not at all, and a level at a day's end with them: the difference of two levels is a sum of
days, the youngest of which had five people in every remainder.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from uuid import UUID

import numpy as np
from django.conf import settings

from apps.analytics.series.daily_series import F8, DailySeries, Mask, SeriesDays
from apps.analytics.series.stored_series import load_children, load_series
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.visibility import is_large_enough, members_below

_LEAST = 1e-9
_UNTIL_KEPT_S = 600.0


def visible_days(series: DailySeries, *, view: PolicyView) -> Mask:
    """Shape (entries, days): whether the view's actor may see numbers of the entry on the day.

    Siblings, and those of ancestors, are loaded only for readers of sums.
    """
    n_days = len(series.days.on)
    told = np.zeros((len(series.uids), n_days), dtype=np.bool_)
    visibility = view.visibility
    days = _Days(view, series.days)
    for row, uid in enumerate(series.uids):
        i = view.tree.index_of_uid(uid)
        if i is None or not visibility.may_see(i):
            continue
        told[row] = True if visibility.outright[i] else days.of(i)
    return told


def as_visible(series: DailySeries, *, view: PolicyView) -> tuple[DailySeries, Mask]:
    """The series with amounts shown by sums only in two digits, and `visible_days`.

    A day is recomputed when records come late, and they often come from one person: a reader who compares two answers
    would see the difference. In two digits it shows where it is a twentieth of the sum, and then roughly.
    """
    outright = [i is not None and bool(view.visibility.outright[i]) for i in map(view.tree.index_of_uid, series.uids)]
    rows = ~np.array(outright, dtype=np.bool_)
    if not rows.any():
        return series, visible_days(series, view=view)

    def told(amounts: F8) -> F8:
        return np.where(rows[:, None], _two_digits(amounts), amounts)

    coarse = replace(
        series,
        used=told(series.used),
        peers_used=told(series.peers_used),
        decayed=told(series.decayed),
        peers_decayed=told(series.peers_decayed),
        waited_core_s=told(series.waited_core_s),
    )
    return coarse, visible_days(series, view=view)


def _two_digits(values: F8) -> F8:
    size = 10.0 ** (np.floor(np.log10(np.where(values > 0, values, 1.0))) - 1)
    return np.round(values / size) * size


@dataclass
class _Found:
    """Some entries by days; arrays (entries, days)."""

    uids: tuple[UUID, ...]
    n_active: F8
    used: F8
    largest: F8
    exists: Mask

    def row(self, uid: UUID) -> _Found:
        at = self.uids.index(uid)
        here = slice(at, at + 1)
        return _Found((uid,), self.n_active[here], self.used[here], self.largest[here], self.exists[here])


@dataclass
class _Days:
    """Works down from the root, each group of siblings once."""

    view: PolicyView
    days: SeriesDays
    told: dict[int, Mask] = field(default_factory=dict)  # entry → (days,)
    numbers: dict[int, _Found] = field(default_factory=dict)

    def of(self, i: int) -> Mask:
        if not self.days.on:
            return np.zeros(0, np.bool_)
        for above in (*self.view.tree.ancestors(i), i):
            if above not in self.told:
                self._decide(above)
        return self.told[i] & (self.days.ends_s <= self.view.now.timestamp() - _UNTIL_KEPT_S)

    def _decide(self, i: int) -> None:
        tree = self.view.tree
        if i == 0:
            found = self._aligned(load_series(self.view.policy, [tree.uuid(0)], **self._span))
            self.numbers[0] = found
            self.told[0] = np.ones(len(self.days.on), np.bool_) if self._is_outright(0) else _safe(found)[0]
            return
        parent = int(tree.parent[i])
        uid = tree.uuid(parent)
        children = self._aligned(load_children(self.view.policy, uid, **self._span))
        self._tell_children(parent, children)
        self.told.setdefault(i, np.zeros(len(self.days.on), dtype=np.bool_))  # not in the series yet

    @property
    def _span(self) -> dict[str, date]:
        return {"from_on": min(self.days.on), "to_on": max(self.days.on)}

    def _is_outright(self, i: int) -> bool:
        """Including the way to it: a token may be bound to a part."""
        outright = self.view.visibility.outright
        return any(bool(outright[part.start : part.stop].any()) for part in self.view.tree.subtree(i))

    def _tell_children(self, parent: int, children: _Found) -> None:
        tree, above = self.view.tree, self.numbers[parent]
        places = [tree.index_of_uid(uid) for uid in children.uids]
        outright = np.array([i is not None and self._is_outright(i) for i in places], dtype=np.bool_)
        wanted = np.array([i is not None and self._is_wanted(i) for i in places], dtype=np.bool_) & ~outright
        candidates = wanted[:, None] & _safe(children) & self.told[parent]
        people = np.array([i is None or bool(members_below(tree)[i]) for i in places], dtype=np.bool_)
        direct = np.maximum(above.used[0] - children.used.sum(axis=0), 0.0)
        direct = np.where(direct > _LEAST * above.used[0], direct, 0.0)
        has_people = people[:, None] & children.exists | (children.used > 0)
        told = _leave_out(children, candidates, has_people & ~outright[:, None], direct) | outright[:, None]
        for row, i in enumerate(places):
            if i is not None:
                self.told[i], self.numbers[i] = told[row], children.row(children.uids[row])

    def _is_wanted(self, i: int) -> bool:
        mask = self.view.visibility.mask
        return any(bool(mask[part.start : part.stop].any()) for part in self.view.tree.subtree(i))

    def _aligned(self, series: DailySeries) -> _Found:
        """On the requested days; missing days are zero and hidden."""
        at = {on: place for place, on in enumerate(series.days.on)}
        places = np.array([at.get(on, -1) for on in self.days.on], dtype=np.int64)
        there = places >= 0
        n_active, used, largest = (
            np.where(there, column[:, np.maximum(places, 0)], 0.0)
            if len(at)
            else np.zeros((len(series.uids), len(there)))
            for column in (series.n_active.astype(np.float64), series.used, series.largest)
        )
        exists = np.zeros(used.shape, np.bool_) if not at else series.exists[:, np.maximum(places, 0)] & there
        alone = (n_active == 0) & (used > 0)  # of a member itself
        return _Found(series.uids, np.where(alone, 1.0, n_active), used, np.where(alone, used, largest), exists)


def _safe(found: _Found) -> Mask:
    smallest = int(settings.FAIRSHARE_SMALLEST_GROUP)
    return is_large_enough(found.n_active, found.used, found.largest, smallest=smallest)


def _leave_out(children: _Found, candidates: Mask, has_people: Mask, direct: F8) -> Mask:
    """Day by day the candidates without the smallest, as few of these as make the remainder safe."""
    told, smallest = candidates.copy(), int(settings.FAIRSHARE_SMALLEST_GROUP)
    by_size = np.argsort(np.where(candidates, children.used, np.inf), axis=0, kind="stable")
    for nth in range(len(by_size) + 1):
        rest = has_people & ~told
        left = [np.where(rest, column, 0.0) for column in (children.n_active, children.used, children.largest)]
        n_active, used = left[0].sum(axis=0) + (direct > 0), left[1].sum(axis=0) + direct
        largest = np.maximum(left[2].max(axis=0, initial=0.0), direct)
        is_safe = is_large_enough(n_active, used, largest, smallest=smallest)
        is_safe |= ~rest.any(axis=0) & (direct == 0)
        open_days = ~is_safe & told.any(axis=0)
        if nth == len(by_size) or not open_days.any():
            break
        told[by_size[nth, open_days], open_days] = False
    return told & is_safe if len(by_size) else told
