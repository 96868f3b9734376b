"""The tree as an icicle chart, for its readers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.accounts.actor import Actor
from apps.priorities.records import IciclePage, Sector
from apps.priorities.selectors.rows import F8, PolicyView, open_view
from apps.priorities.selectors.visible_snapshot import local_only_among, moment_of, require_entry

I8 = npt.NDArray[np.int64]
MOST_A_LEVEL = 50  # entries of one level; with combined ones a chart has at most 400 sectors


def get_icicle(
    *,
    policy_slug: str,
    actor: Actor,
    chosen_uid: UUID | None,
    sizes: str,
    levels: int,
    smallest: float,
    at: int | datetime | None,
) -> IciclePage:
    """The icicle of an entry and those below it; of its parent if the entry has no children.

    sizes: `target` or `actual`. levels: number of levels, the entry's own included. smallest: least fraction of the
    chart that gets its own sector. at: a revision or an instant of the past.
    """
    view = open_view(policy_slug=policy_slug, actor=actor, at=at)
    chosen = view.visibility.require(0) if chosen_uid is None else require_entry(view, chosen_uid)
    top = _top_of(view, chosen)
    chart = _Chart(view, top, sizes, levels, smallest)
    drawn = chart.draw()
    return IciclePage(
        policy_slug=view.policy.slug,
        policy_name=view.policy.name,
        revision=view.revision,
        as_of=view.as_of,
        settings=view.settings,
        top=drawn,
        way=view.rows(above for above in view.tree.ancestors(top) if view.visibility.may_see(above)),
        chosen=view.row(chosen, position=(1, 1)),
        sizes=sizes,
        n_entries=chart.n_entries,
        n_shown=chart.n_shown,
        moment=moment_of(view),
        local_only=local_only_among(view, list(_uids(drawn))),
    )


def _top_of(view: PolicyView, chosen: int) -> int:
    """The top entry of the chart: for a leaf its parent, if visible."""
    parent = int(view.tree.parent[chosen])
    if view.visible_children(chosen) or parent < 0 or not view.visibility.may_see(parent):
        return chosen
    return parent


def _uids(sector: Sector) -> Iterator[UUID]:
    """At most five levels deep."""
    if sector.row is not None:
        yield sector.row.uid
    for child in sector.children:
        yield from _uids(child)


class _Chart:
    """Builds the sectors of a chart, level by level, the largest entries of each."""

    def __init__(self, view: PolicyView, top: int, sizes: str, levels: int, smallest: float) -> None:
        self.view, self.top = view, top
        self._depth, self._smallest = levels, smallest
        self._levels = view.tree.subtree(top)
        self._size = self._with_inheriting(self._actual() if sizes == "actual" else self._target())
        self._whole = self._size[top] or 1.0
        self.n_shown = 0

    @property
    def n_entries(self) -> int:
        mask = self.view.visibility.mask
        return sum(int(mask[level.start : level.stop].sum()) for level in self._levels)

    def draw(self) -> Sector:
        is_shown = np.zeros(len(self.view.tree), np.bool_)
        is_shown[self.top] = True
        for level in self._levels[1 : self._depth]:
            below = level.start + np.flatnonzero(is_shown[self.view.tree.parent[level.start : level.stop]])
            is_shown[self._largest(below)] = True
        shown = set(np.flatnonzero(is_shown).tolist())
        self.n_shown = len(shown)
        return self._sector(self.top, shown, depth=1)

    def _largest(self, candidates: I8) -> I8:
        size, least = self._size, self._smallest * self._whole * (1 - 1e-9)
        seen = candidates[self.view.visibility.mask[candidates] & (size[candidates] >= least)]
        return seen[np.lexsort((seen, -size[seen]))[:MOST_A_LEVEL]]

    def _sector(self, i: int, shown: set[int], depth: int) -> Sector:
        """A sector with the sectors below it; recursion is limited by the number of levels."""
        size = float(self._size[i] / self._whole)
        row = self.view.row(i, position=(1, 1))
        children = self.view.tree.children(i)
        if depth >= self._depth or not children:
            return Sector(row, size)
        below = [self._sector(child, shown, depth + 1) for child in children if child in shown]
        rest = [child for child in children if child not in shown]
        left = float(sum(self._size[child] for child in rest) / self._whole)
        if rest and left >= self._smallest:
            below.append(Sector(None, left, n_together=len(rest)))
        return Sector(row, size, children=below)

    def _target(self) -> F8:
        """Products of targets from the top down; children of an entry that inherits divide its parent's target."""
        tree, competes, among_siblings = self.view.tree, self.view.competes, self.view.target[0]
        target = np.zeros(len(tree))
        target[self.top] = 1.0
        of_parent = target.copy()  # the fraction that the children divide
        for level in self._levels[1:]:
            here = slice(level.start, level.stop)
            above = of_parent[tree.parent[here]]
            target[here] = np.where(competes[here], among_siblings[here] * above, 0.0)
            of_parent[here] = np.where(competes[here], target[here], above)
        return target

    def _actual(self) -> F8:
        """Actual shares of the whole; 0 if unknown or hidden."""
        place, snapshot = self.view.snapshot_index, self.view.snapshot
        if snapshot is None:
            return np.zeros(len(self.view.tree))
        known = (place >= 0) & self.view.competes & self.view.shows_numbers
        actual: F8 = np.where(known, snapshot.actual_global[place], 0.0)
        actual[0] = 1.0
        return actual

    def _with_inheriting(self, size: F8) -> F8:
        """Set entries with *inherit* shares to the sum of their children."""
        inherits = self.view.tree.inherit
        for level in reversed(self._levels[1:]):
            parents = self.view.tree.parent[level.start : level.stop]
            sums = np.zeros(len(size))
            np.add.at(sums, parents, size[level.start : level.stop])
            above = np.unique(parents)
            above = above[inherits[above] & (above > 0)]
            size[above] = sums[above]
        return size
