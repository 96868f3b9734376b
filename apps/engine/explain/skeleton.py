"""A small tree in which two entries compare exactly as in the whole one: their paths with all siblings beside them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apps.engine.algorithms import PriorityResult, compute_prepared, explanation_of, get_algorithm
from apps.engine.algorithms.inputs import compared_again, prepare
from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.explain.walk import compared_values, lineage, tie_width
from apps.engine.tree import FairshareTree

_WIDE = 256


@dataclass(frozen=True, eq=False)
class Skeleton:
    """What lies beside the paths is closed: an entry with its total and nothing below. Totals per scope, as in results.

    entries: the original entry of each of the m entries. parent, shares, …: (m,), in the original's order.
    """

    result: PriorityResult
    entries: IntArray
    tree: FairshareTree
    usage: FloatArray
    group_usage: FloatArray

    def place(self, entry: int) -> int:
        """Where an original entry is."""
        return int(np.searchsorted(self.entries, entry))

    def with_more_usage(self, entry: int, amount: float) -> PriorityResult:
        """As if this entry had used more, in every scope."""
        usage, group_usage = self.usage.copy(), self.group_usage.copy()
        at = self.place(entry)
        while at >= 0:
            usage[at] += amount
            group_usage[at] += amount
            at = int(self.tree.parent[at])
        return self._compute(self.tree, usage, group_usage)

    def with_less_usage(self, entry: int, amount: float) -> PriorityResult:
        """As if this entry had used less, all entries below it in proportion."""
        usage, group_usage = self.usage.copy(), self.group_usage.copy()
        at = self.place(entry)
        below = self._subtree(at)
        total = usage[at]
        kept = max(0.0, 1.0 - amount / total) if total > 0 else 1.0
        usage[below] *= kept
        group_usage[below] *= kept
        at = int(self.tree.parent[at])
        while at >= 0:
            usage[at] = max(0.0, usage[at] - amount)
            group_usage[at] = max(0.0, group_usage[at] - amount)
            at = int(self.tree.parent[at])
        return self._compute(self.tree, usage, group_usage)

    def with_shares(self, entry: int, shares: float) -> PriorityResult:
        """As if this entry had other shares."""
        changed = self.tree.shares.copy()
        changed[self.place(entry)] = shares
        return self._compute(self.tree.with_shares(changed), self.usage, self.group_usage)

    def sign(self, computed: PriorityResult, one: int, other: int) -> int:
        """1 where `one` is ahead of `other` in a result of this skeleton, −1 where behind, 0 where they tie."""
        return compare(computed, self.place(one), self.place(other))

    def _subtree(self, at: int) -> BoolArray:
        inside = np.zeros(self.tree.n_entries, dtype=np.bool_)
        inside[at] = True
        for level in self.tree.levels:
            inside[level.lo : level.hi] |= inside[self.tree.parent[level.lo : level.hi]]
        return inside

    def _compute(self, tree: FairshareTree, usage: FloatArray, group_usage: FloatArray) -> PriorityResult:
        prepared = prepare(tree)
        return compute_prepared(prepared, compared_again(prepared, usage, group_usage), self.result.settings)


def skeleton(result: PriorityResult, one: int, other: int) -> Skeleton:
    """The skeleton for two entries; entries without shares are open, so that competition is unchanged.

    In wide groups what lies beside the paths is added up, kind by kind: only sums over siblings matter to the others.
    """
    tree = result.tree
    opened, ends = {0}, {one, other}
    for entry in (one, other):
        while (entry := int(tree.parent[entry])) > 0:
            opened.add(entry)
    kept, waiting = [np.zeros(1, dtype=np.int64)], sorted(opened)
    shares, usage, group_usage = tree.shares.copy(), result.usage.copy(), result.group_usage.copy()
    while waiting:
        first, count = int(tree.first_child[at := waiting.pop()]), int(tree.child_count[at])
        children = np.arange(first, first + count)
        dissolved = children[tree.inherits[children]].tolist()
        waiting += [child for child in dissolved if child not in opened]
        opened.update(dissolved)
        if count > _WIDE:
            children = _summed(tree, children, opened | ends, (shares, usage, group_usage))
        kept.append(children)
    entries = np.sort(np.concatenate(kept))
    parent = np.searchsorted(entries, tree.parent[entries]).astype(np.int64)
    parent[0] = -1
    seniority = tree.seniority
    small, _ = FairshareTree.from_columns(
        parent,
        shares[entries],
        inherits=tree.inherits[entries],
        is_group=tree.is_group[entries],
        is_reserve=tree.is_reserve[entries],
        is_user=tree.is_user[entries],
        seniority=None if seniority is None else lambda: seniority()[entries],
    )
    return Skeleton(result, entries, small, usage[entries], group_usage[entries])


def _summed(tree: FairshareTree, children: IntArray, open_ones: set[int], columns: tuple[FloatArray, ...]) -> IntArray:
    """Add the closed children of each kind up in the first of them; return the children that remain."""
    is_closed = ~np.isin(children, list(open_ones))
    kind = tree.is_group[children] * 4 + tree.is_reserve[children] * 2 + tree.is_user[children] * 1
    remain = children[~is_closed]
    for each in np.unique(kind[is_closed]).tolist():
        alike = children[is_closed & (kind == each)]
        for column in columns:
            column[alike[0]] = column[alike].sum()
        remain = np.append(remain, alike[0])
    return remain


def decides_by_level(result: PriorityResult) -> bool:
    """Is the order made level by level, or from one number that the whole path goes into?"""
    return explanation_of(result.settings).kind == "levels"


def compare(result: PriorityResult, one: int, other: int) -> int:
    """1 where `one` is ahead, −1 where behind, 0 where they tie: by rank, else as the algorithm would rank them."""
    if result.is_ranked[one] and result.is_ranked[other]:
        return int(np.sign(result.rank[other] - result.rank[one]))
    if not decides_by_level(result):
        values = result.factor if result.has_factor[one] and result.has_factor[other] else result.priority
        return _sign(result, float(values[one]), float(values[other]))
    difference = first_difference(result, one, other)
    return 0 if difference is None else difference[1]


def first_difference(result: PriorityResult, one: int, other: int) -> tuple[int, int] | None:
    """The first level (from 0) whose components differ, and the sign.

    A vector that ends goes on with balance; an algorithm with an order of its own compares no level that one hasn't.
    """
    values = compared_values(result)
    balance = 0 if result.resolution is None else result.resolution // 2
    mine, theirs = lineage(result, one), lineage(result, other)
    pads = {"vector", "value"} & set(get_algorithm(result.settings["name"]).fields)
    for level in range((max if pads else min)(len(mine), len(theirs))):
        a = float(values[mine[level]]) if level < len(mine) else balance
        b = float(values[theirs[level]]) if level < len(theirs) else balance
        sign = _sign(result, a, b)
        if sign:
            return level, sign
    return None


def _sign(result: PriorityResult, one: float, other: float) -> int:
    if one == other:
        return 0
    if not (np.isfinite(one) and np.isfinite(other)):
        return 1 if one > other else -1
    width = float(tie_width(result, np.array(one), np.array(other)))
    return 0 if abs(one - other) <= width else int(np.sign(one - other))
