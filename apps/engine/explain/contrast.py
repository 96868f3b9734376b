"""Compare two entries: which is ahead, which level decides, and which changes would reverse their order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from apps.engine.algorithms import PriorityResult, compute_prepared, explanation_of, get_algorithm
from apps.engine.algorithms.inputs import compare_totals, prepare
from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.explain.path_step import Step, compared_values, lineage, step_of, tie_width
from apps.engine.tree import FairshareTree

_WIDE = 256
DecidedBy = Literal["level", "whole_path", "sibling_order", "own_order", "tie"]
_RELATIVE_WIDTH = 1e-12
_SAME_PRIORITY = 1e-9  # closer values are equal, without allowance for rounding
_MOST_HALVINGS = 200
_FARTHEST = 1e12


@dataclass(frozen=True, eq=False)
class MinimalTree:
    """A small tree: the paths of the two entries, and entries beside them with their totals but without children.

    Totals are per scope, as in results. entries: the original entry of each of the m entries. parent, shares, …: (m,),
    in the order of the original tree.
    """

    result: PriorityResult
    entries: IntArray
    tree: FairshareTree
    usage: FloatArray
    group_usage: FloatArray

    def place(self, entry: int) -> int:
        """Index of an original entry."""
        return int(np.searchsorted(self.entries, entry))

    def with_more_usage(self, entry: int, amount: float) -> PriorityResult:
        """The minimal tree with more usage of this entry, in every scope."""
        usage, group_usage = self.usage.copy(), self.group_usage.copy()
        at = self.place(entry)
        while at >= 0:
            usage[at] += amount
            group_usage[at] += amount
            at = int(self.tree.parent[at])
        return self._compute(self.tree, usage, group_usage)

    def with_less_usage(self, entry: int, amount: float) -> PriorityResult:
        """The minimal tree with less usage of this entry; that of all entries below it shrinks in proportion."""
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
        """The minimal tree with other shares of this entry."""
        changed = self.tree.shares.copy()
        changed[self.place(entry)] = shares
        return self._compute(self.tree.with_shares(changed), self.usage, self.group_usage)

    def sign(self, computed: PriorityResult, left: int, right: int) -> int:
        """1 if `left` is ahead of `right` in a result of this minimal tree, −1 if behind, 0 if they tie."""
        return compare(computed, self.place(left), self.place(right))

    def _subtree(self, at: int) -> BoolArray:
        inside = np.zeros(self.tree.n_entries, dtype=np.bool_)
        inside[at] = True
        for level in self.tree.levels:
            inside[level.lo : level.hi] |= inside[self.tree.parent[level.lo : level.hi]]
        return inside

    def _compute(self, tree: FairshareTree, usage: FloatArray, group_usage: FloatArray) -> PriorityResult:
        prepared = prepare(tree)
        return compute_prepared(prepared, compare_totals(prepared, usage, group_usage), self.result.settings)


def build_minimal_tree(result: PriorityResult, left: int, right: int) -> MinimalTree:
    """Build the minimal tree for two entries; entries without shares keep their children: competition is unchanged.

    In wide groups entries beside the paths are summed by kind, because only sums over siblings matter to the others.
    """
    tree = result.tree
    opened, ends = {0}, {left, right}
    for entry in (left, right):
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
    return MinimalTree(result, entries, small, usage[entries], group_usage[entries])


def _summed(tree: FairshareTree, children: IntArray, open_ones: set[int], columns: tuple[FloatArray, ...]) -> IntArray:
    """Sum the closed children of each kind in the first of them; return the remaining children."""
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
    """Whether the order is decided level by level, rather than by one number of the whole path."""
    return explanation_of(result.settings).kind == "levels"


def compare(result: PriorityResult, left: int, right: int) -> int:
    """1 if `left` is ahead, −1 if behind, 0 for a tie: by rank, or as the algorithm would rank entries without one."""
    if result.is_ranked[left] and result.is_ranked[right]:
        return int(np.sign(result.rank[right] - result.rank[left]))
    if not decides_by_level(result):
        values = result.factor if result.has_factor[left] and result.has_factor[right] else result.priority
        return _sign(result, float(values[left]), float(values[right]))
    difference = first_difference(result, left, right)
    return 0 if difference is None else difference[1]


def first_difference(result: PriorityResult, left: int, right: int) -> tuple[int, int] | None:
    """The first level (from 0) whose components differ, and the sign.

    A shorter vector is padded with balance; algorithms with an own order don't compare levels that one entry lacks.
    """
    values = compared_values(result)
    balance = 0 if result.resolution is None else result.resolution // 2
    left_path, right_path = lineage(result, left), lineage(result, right)
    pads = {"vector", "value"} & set(get_algorithm(result.settings["name"]).fields)
    for level in range((max if pads else min)(len(left_path), len(right_path))):
        a = float(values[left_path[level]]) if level < len(left_path) else balance
        b = float(values[right_path[level]]) if level < len(right_path) else balance
        sign = _sign(result, a, b)
        if sign:
            return level, sign
    return None


def _sign(result: PriorityResult, left: float, right: float) -> int:
    if left == right:
        return 0
    if not (np.isfinite(left) and np.isfinite(right)):
        return 1 if left > right else -1
    width = float(tie_width(result, np.array(left), np.array(right)))
    return 0 if abs(left - right) <= width else int(np.sign(left - right))


@dataclass(frozen=True)
class OrderFlip:
    """Single changes, each enough to put the entry behind strictly ahead; None if no change of its kind is.

    Amounts of usage are in the unit of the result's usage. ahead_gains_usage: additional usage of the entry ahead.
    behind_sheds_usage: decrease of usage of the entry behind, at most all of it. ahead_shares_at_most,
    behind_shares_at_least: new shares, with those of the other siblings unchanged. All other entries are unchanged.
    """

    ahead_gains_usage: float | None
    behind_sheds_usage: float | None
    ahead_shares_at_most: float | None
    behind_shares_at_least: float | None


@dataclass(frozen=True)
class Contrast:
    """Which of two entries is ahead, and why.

    decided_by: `level`, the first one whose components differ; `whole_path`, for an algorithm that makes one number of
    all levels; `sibling_order`, where the entries at which the paths diverge are equal and a scheduler's order
    of listing decides (Slurm: tied accounts); `own_order`, where another rule of the algorithm does (Slurm: users
    before accounts, and users whose shares are `parent` first); `tie`. level: 1 for the first below the root, where
    they differ, or else where their paths diverge; None for equal vectors (two users whose shares are *inherit*, whom
    Slurm still distinguishes). rounded: the levels above that one (all, for
    a tie) at which the entries of the two have different priorities and equal whole numbers, as (level, step, step).
    ahead_step, behind_step: their entries on this level; None where the vector has ended and counts as balance. turn:
    None for a tie; for usage and shares of the entries of this level.
    """

    decided_by: DecidedBy
    ahead: int | None
    behind: int | None
    level: int | None
    ahead_step: Step | None
    behind_step: Step | None
    turn: OrderFlip | None
    rounded: tuple[tuple[int, Step, Step], ...] = ()


def contrast(result: PriorityResult, left: int, right: int) -> Contrast:
    """Compare two entries of a result, neither of them the root, by recomputing a small tree around their paths."""
    sign = compare(result, left, right)
    left_path, right_path = lineage(result, left), lineage(result, right)
    decided_by, at = _decided(result, sign, first_difference(result, left, right), left_path, right_path)
    if sign < 0:
        left, right, left_path, right_path = right, left, right_path, left_path
    if at is None:
        ahead, behind = (None, None) if sign == 0 else (left, right)
        return Contrast(decided_by, ahead, behind, None, None, None, None)
    left_at = left_path[at] if at < len(left_path) else None
    right_at = right_path[at] if at < len(right_path) else None
    steps = [None if entry is None else step_of(result, entry) for entry in (left_at, right_at)]
    rounded = _rounded(result, left_path, right_path, None if sign == 0 else at)
    if sign == 0:
        return Contrast("tie", None, None, at + 1, steps[0], steps[1], None, rounded)
    turn = _turn(build_minimal_tree(result, left, right), left, right, left_at, right_at)
    return Contrast(decided_by, left, right, at + 1, steps[0], steps[1], turn, rounded)


def _decided(
    result: PriorityResult, sign: int, difference: tuple[int, int] | None, left_path: list[int], right_path: list[int]
) -> tuple[DecidedBy, int | None]:
    """The deciding rule and its level (from 0). difference: the first level whose components differ, and the sign."""
    parting = _parting(left_path, right_path)
    if sign == 0:
        return "tie", parting
    if not decides_by_level(result):
        return "whole_path", parting
    at_parting = [path[parting] for path in (left_path, right_path) if parting is not None and parting < len(path)]
    is_between_groups = len(at_parting) == 2 and not result.is_ranked[at_parting].any()
    properties = get_algorithm(result.settings["name"]).properties(result.settings)
    is_listed = not properties.order_independent and is_between_groups
    if difference is not None and difference[1] == sign and (difference[0] == parting or not is_listed):
        return "level", difference[0]
    return ("sibling_order" if is_listed else "own_order"), parting


def _rounded(
    result: PriorityResult, left_path: list[int], right_path: list[int], end: int | None
) -> tuple[tuple[int, Step, Step], ...]:
    """Levels before `end` at which entries have equal scalars but different priorities."""
    if result.resolution is None:
        return ()
    pairs = list(zip(left_path, right_path, strict=False))[:end]
    return tuple(
        (level, step_of(result, left), step_of(result, right))
        for level, (left, right) in enumerate(pairs, start=1)
        if result.scalar[left] == result.scalar[right]
        and abs(result.priority[left] - result.priority[right]) > _SAME_PRIORITY
    )


def _parting(left_path: list[int], right_path: list[int]) -> int | None:
    """The first level at which two paths have different entries."""
    for level in range(max(len(left_path), len(right_path))):
        if left_path[level : level + 1] != right_path[level : level + 1]:
            return level
    return None


def _turn(small: MinimalTree, ahead: int, behind: int, ahead_at: int | None, behind_at: int | None) -> OrderFlip:
    def turned(computed: PriorityResult) -> bool:
        return small.sign(computed, behind, ahead) > 0

    result, gains, sheds, falls, rises = small.result, None, None, None, None
    if ahead_at is not None:
        step = step_of(result, ahead_at)
        start = step.group_usage if step.group_usage > 0 else 1.0
        gains = least(lambda amount: turned(small.with_more_usage(ahead_at, amount)), start, start * _FARTHEST)
        taken = least(lambda amount: turned(small.with_shares(ahead_at, step.shares - amount)), step.shares, None)
        falls = None if taken is None else step.shares - taken
    if behind_at is not None:
        step = step_of(result, behind_at)
        sheds = least(lambda amount: turned(small.with_less_usage(behind_at, amount)), step.usage, None)
        start = step.group_shares if step.group_shares > 0 else 1.0
        extra = least(
            lambda amount: turned(small.with_shares(behind_at, step.shares + amount)), start, start * _FARTHEST
        )
        rises = None if extra is None else step.shares + extra
    return OrderFlip(gains, sheds, falls, rises)


def least(holds: Callable[[float], bool], start: float, farthest: float | None) -> float | None:
    """The smallest amount > 0 from which on `holds` is true, with relative precision 1e-12, by doubling and halving.

    `holds` turns from false to true at most once. Returns an amount at which it is true; None if it is false up to
    `farthest` or, if that is None, at `start`.
    """
    low, high = 0.0, start
    if start <= 0:
        return None
    while not holds(high):
        low, high = high, high * 8.0
        if farthest is None or high > farthest:
            return None
    for _ in range(_MOST_HALVINGS):
        if high - low <= _RELATIVE_WIDTH * high or high <= _RELATIVE_WIDTH * start:
            break
        middle = (low + high) / 2.0
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
