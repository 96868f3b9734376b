"""Inputs of tree algorithms: the prepared tree, usage summed per scope, and the formulas of Slurm's share trees.

Source of the latter: Slurm 22.05, priority/multifactor without Fair Tree; names are those that `sshare` prints.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.engine import sweep
from apps.engine.arrays import CHUNK, BoolArray, FloatArray, IntArray, LongArray
from apps.engine.errors import BadUsage
from apps.engine.numerics.flux_ties import WholeNumbers, whole_numbers
from apps.engine.numerics.walk_order import WalkTree, build_walk_tree
from apps.engine.operators import get_operator
from apps.engine.tree import FairshareTree

# Factors whose relative difference is at most this tie.
TIE = 1e-12

# Below this, doubles lose digits: quotients of smaller numbers are meaningless, or overflow.
SMALLEST = float(np.finfo(np.float64).tiny)
_EXACT = 2.0**53

# Numbers below this, and above its inverse, can be multiplied and divided by each other a few times.
LARGE = 2.0**240

# The prepared tree is cached as an attribute of its tree. A table of trees would never release them, because what is
# prepared refers to its tree.
_CACHE_ATTRIBUTE = "_prepared"


def users_of(tree: FairshareTree) -> BoolArray:
    """(n,) the leaves of kind `user`, which alone are ranked and counted by Slurm."""
    users: BoolArray = tree.is_user & tree.is_ranked
    return users


def norm_usage(
    tree: FairshareTree, total: FloatArray, group_total: FloatArray, fairshare_parent: IntArray
) -> FloatArray:
    """NormUsage = total / total of the root, (n,) 0..1; 0 without usage.

    Where groups are compared in different scopes (group_total differs from total), it is the product of
    total / group_total of the fairshare parent down the tree. Both are equal but for rounding if all scopes are equal.
    """
    part = np.zeros(tree.n_entries)
    part[0] = 1.0 if total[0] > 0 else 0.0
    if group_total is total or np.array_equal(group_total, total):
        if total[0] > 0:
            np.minimum(total / total[0], 1.0, out=part)
        return part
    part[0] = 1.0
    for level in tree.levels:
        here = slice(level.lo, level.hi)
        parent = fairshare_parent[here]
        parent_total = group_total[parent]
        local = np.divide(total[here], parent_total, out=np.zeros(level.hi - level.lo), where=parent_total > 0)
        part[here] = part[parent] * np.minimum(local, 1.0)
    return part


def effective_of_all(
    effective: FloatArray, norm_usage: FloatArray, seat: IntArray, fairshare_parent: IntArray, inherits: BoolArray
) -> FloatArray:
    """Effective usage of all entries, (n,), from that of the competing ones.

    An entry whose shares are `parent` has the effective usage of its fairshare parent; directly below the root it has
    its own normalised usage.
    """
    of_all: FloatArray = np.where(inherits & (fairshare_parent == 0), norm_usage, effective[seat])
    return of_all


def factor(effective: FloatArray, norm_shares: FloatArray, damping_factor: int = 1) -> FloatArray:
    """F = 2^−(UE / S / d), 0..1; 0 where S is 0. Source: Slurm: Classic Fairshare Algorithm."""
    UE, S, d = effective, norm_shares, damping_factor
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        F = np.exp2(-(UE / S / d))
    with_edges: FloatArray = np.where(S > 0, F, 0.0)
    return with_edges


def priority(effective: FloatArray, norm_shares: FloatArray) -> FloatArray:
    """p = 2^(1 − UE / S) − 1, −1..1: twice the undamped factor less 1, so that 0 is on target; −1 where S is 0."""
    with_edges: FloatArray = np.where(norm_shares > 0, get_operator("slurm")(norm_shares, effective), -1.0)
    return with_edges


def ranks(factors: FloatArray, is_user: BoolArray) -> IntArray:
    """Ranks by factor, (n,): 1 + the number of users strictly ahead, 0 for non-users.

    Neighbours whose factors differ by at most 1e-12 relatively tie.
    """
    users = np.flatnonzero(is_user)
    order = users[np.argsort(-factors[users], kind="stable")]
    sorted_factors = factors[order]
    is_next = np.ones(len(order), dtype=np.bool_)
    is_next[1:] = sorted_factors[:-1] - sorted_factors[1:] > TIE * sorted_factors[:-1]
    positions = np.arange(1, len(order) + 1)
    rank = np.zeros(len(factors), dtype=np.int64)
    rank[order] = np.maximum.accumulate(np.where(is_next, positions, 0)) if len(order) else positions
    return rank


@dataclass(frozen=True, eq=False)
class Prepared:
    """Everything that depends on the tree alone, computed once for a revision.

    Arrays (m,) are over the entries of the competing tree `contest`; `entry` and `seat` translate, as in
    `tree.Competition`. target, target_global: (m,), at least `SMALLEST` where an entry and all its ancestors have
    shares. ends: (m,) number of ranked leaves whose vector is that of the entry. depth: levels of the ranked leaves'
    vectors. lost, lost_global: the first entry of the tree whose target or target_global underflowed and was raised to
    `SMALLEST`; −1 for none.
    """

    tree: FairshareTree
    contest: FairshareTree
    entry: IntArray
    seat: IntArray
    is_whole: bool
    target: FloatArray
    target_global: FloatArray
    ends: IntArray
    n_ranked: int
    depth: int
    lost: int
    lost_global: int

    @cached_property
    def has_leaf(self) -> BoolArray:
        """(n,) whether an entry is a ranked leaf or has one below; entries without any have no rank."""
        tree, has_leaf = self.tree, self.tree.is_ranked.copy()
        for level in reversed(tree.levels):
            has_leaf[level.parents] = np.logical_or.reduceat(has_leaf[level.lo : level.hi], level.starts)
        has_leaf.flags.writeable = False
        return has_leaf

    @property
    def is_root_listed(self) -> bool:
        """Whether any entry but the root has the empty vector: a top-level leaf whose shares are *inherit*."""
        return not self.is_whole and bool((self.seat[1:] == 0).any())

    def spread(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values (n,) of all entries, from those (m,) of the competing entries: each takes its seat's value."""
        return values if self.is_whole else values[self.seat]

    @cached_property
    def fairshare_parent(self) -> IntArray:
        """(n,) the nearest ancestor with shares, among whose children an entry is compared; −1 for the root.

        Source: in Slurm, children of an account with shares `parent` are compared one level higher.
        """
        tree = self.tree
        above = np.maximum(tree.parent, 0).astype(np.int64)
        parent: IntArray = above if self.is_whole else self.entry[self.seat[above]]
        parent[0] = -1
        return parent

    @cached_property
    def sibling_shares(self) -> FloatArray:
        """(n,) sum of the shares of each entry's children; may be infinite."""
        with np.errstate(over="ignore"):
            sums: FloatArray = sweep.sibling_sum(self.tree, self.tree.shares)
        return sums

    @cached_property
    def has_ordinary_shares(self) -> bool:
        """Whether quotients and products of shares and usage below `LARGE` neither overflow nor underflow."""
        shares = self.tree.shares
        least = float(np.min(shares, where=shares > 0, initial=1.0))
        return least > 1.0 / LARGE and float(shares.max()) < LARGE

    @cached_property
    def has_whole_shares(self) -> bool:
        """Whether shares are whole numbers whose sums are exact in doubles."""
        return _adds_up_exactly(self.tree.shares)

    @cached_property
    def without_shares(self) -> IntArray:
        """The entries whose shares are 0."""
        return np.flatnonzero(self.tree.shares == 0)

    @cached_property
    def user_walk(self) -> WalkTree:
        """The tree that Slurm's Fair Tree walks to rank users."""
        return build_walk_tree(self.tree, self.fairshare_parent, users_of(self.tree))

    @cached_property
    def leaf_walk(self) -> WalkTree:
        """The tree that is walked to rank leaves."""
        return build_walk_tree(self.tree, self.fairshare_parent, self.tree.is_ranked)


def prepare(tree: FairshareTree) -> Prepared:
    """Targets, seats and depth of a tree; cached for the lifetime of the tree object."""
    prepared: Prepared | None = vars(tree).get(_CACHE_ATTRIBUTE)
    if prepared is None:
        contest, entry, seat, is_whole = tree.competition
        has_shares = contest.shares > 0
        target, lost = _at_least_smallest(sweep.normalise_siblings(contest, contest.shares), lambda: has_shares)
        target_global, lost_global = _at_least_smallest(
            sweep.product_down(contest, target), lambda: sweep.product_down(contest, has_shares.astype(np.float64)) > 0
        )
        ends = np.bincount(seat[tree.is_ranked], minlength=contest.n_entries)
        deepest = int(np.flatnonzero(ends).max(initial=0))
        prepared = vars(tree)[_CACHE_ATTRIBUTE] = Prepared(
            tree=tree,
            contest=contest,
            entry=entry,
            seat=seat,
            is_whole=is_whole,
            target=target,
            target_global=target_global,
            ends=ends,
            n_ranked=int(ends.sum()),
            depth=int(np.searchsorted(contest.level_offsets, deepest, side="right")) - 1,
            lost=int(entry[lost]) if lost >= 0 else -1,
            lost_global=int(entry[lost_global]) if lost_global >= 0 else -1,
        )
    return prepared


def release(tree: FairshareTree) -> None:
    """Forget what was computed of a tree: it refers to the tree, and both would wait for the garbage collector.

    Who still has the tree can compute it again.
    """
    for name in (_CACHE_ATTRIBUTE, "competition"):
        vars(tree).pop(name, None)


def _at_least_smallest(values: FloatArray, is_positive: Callable[[], BoolArray]) -> tuple[FloatArray, int]:
    """Raise underflowed values to `SMALLEST` where they are positive in exact arithmetic.

    Returns (values, index of the first that was raised or −1).
    """
    is_low = values < SMALLEST
    is_lost = is_low & is_positive() if is_low.any() else is_low
    if not is_lost.any():
        return values, -1
    return np.where(is_lost, SMALLEST, values), int(np.argmax(is_lost))


@dataclass(frozen=True, eq=False)
class Compared:
    """Usage summed up the tree per scope, (n,) over all entries, divided by `scale`.

    total: of the entry and its subtree, in the scope in which the entry is compared, which is that of its fairshare
    parent. group_total: in the scope in which its *children* are compared. own, scope: the summed inputs, if known.
    """

    prepared: Prepared
    total: FloatArray
    group_total: FloatArray
    scale: float = 1.0
    child_sum: FloatArray | None = None
    own: FloatArray | None = None
    scope: IntArray | None = None

    @property
    def usage(self) -> FloatArray:
        """`total` in the unit of the input; the largest double where it would overflow."""
        return unscale(self.total, self.scale)

    @property
    def group_usage(self) -> FloatArray:
        """`group_total` in the unit of the input."""
        return self.usage if self.group_total is self.total else unscale(self.group_total, self.scale)

    @cached_property
    def adds_up_exactly(self) -> bool:
        """Whether totals in long doubles equal those in doubles."""
        return self.own is None or _adds_up_exactly(self.own)

    @cached_property
    def long_totals(self) -> tuple[LongArray, LongArray]:
        """(total, group_total) as long doubles, rounded once."""
        if self.own is None:
            return self.total.astype(np.longdouble), self.group_total.astype(np.longdouble)
        tree = self.prepared.tree
        if self.scope is None:
            total = sweep.sum_up_long(tree, self.own)
            return total, total
        totals = np.stack([sweep.sum_up_long(tree, row) for row in self.own])
        entries = np.arange(tree.n_entries)
        return totals[self.scope[np.maximum(self.prepared.fairshare_parent, 0)], entries], totals[self.scope, entries]

    def exact_totals(self, entries: IntArray) -> WholeNumbers:
        """Totals of some entries as exact numbers, all in one unit."""
        if self.own is None or self.adds_up_exactly:
            return whole_numbers(self.total[entries])
        tree = self.prepared.tree
        is_below = np.zeros(tree.n_entries, dtype=np.bool_)
        is_below[entries] = True
        for level in tree.levels:
            is_below[level.lo : level.hi] |= is_below[tree.parent[level.lo : level.hi]]
        own = np.zeros(self.own.shape, dtype=np.object_)
        own[..., is_below] = whole_numbers(self.own[..., is_below])
        if self.scope is None:
            return sweep.sum_up(tree, own)[0][entries]
        totals = np.stack([sweep.sum_up(tree, row)[0] for row in own])
        return totals[self.scope[np.maximum(self.prepared.fairshare_parent[entries], 0)], entries]

    @cached_property
    def sibling_usage(self) -> FloatArray:
        """(n,) sum of the totals of each entry's children, in the scope these are compared by."""
        if self.child_sum is not None:
            return self.child_sum
        return sweep.sibling_sum(self.prepared.tree, self.total)

    @cached_property
    def actual(self) -> FloatArray:
        """Usage divided by the sum over siblings, (m,) over the competing entries; 0 without usage."""
        prepared = self.prepared
        total = self.total if prepared.is_whole else self.total[prepared.entry]
        child_sum = self.sibling_usage if prepared.is_whole else sweep.sibling_sum(prepared.contest, total)
        actual = sweep.divide_by_group(prepared.contest, total, child_sum)
        actual[0] = 1.0 if total[0] > 0 else 0.0
        return actual


def unscale(values: FloatArray, scale: float) -> FloatArray:
    """Multiply by `scale` to undo `shrink_huge`; at most the largest double."""
    return values if scale == 1.0 else np.minimum(values, np.finfo(np.float64).max / scale) * scale


def compare_usage(prepared: Prepared, usage: npt.ArrayLike, scope_of_entry: npt.ArrayLike | None) -> Compared:
    """Sum usage up the tree per scope; siblings are compared in the scope of their parent.

    usage: own usage of each entry, (n,), or (scopes, n) with scope_of_entry (n,), the scope in which an entry's
    *children* are compared. Raises BadUsage.
    """
    tree = prepared.tree
    own = np.asarray(usage, dtype=np.float64)
    _check_usage(tree, own)
    own, scale = sweep.shrink_huge(own)
    if own.ndim == 1:
        total, child_sum = sweep.sum_up(tree, own)
        return Compared(prepared, total, total, scale, child_sum, own)
    scope = _read_scope(tree, scope_of_entry, len(own))
    totals = np.stack([sweep.sum_up(tree, row)[0] for row in own])
    entries = np.arange(tree.n_entries)
    compared_by = scope[np.maximum(prepared.fairshare_parent, 0)]
    return Compared(prepared, totals[compared_by, entries], totals[scope, entries], scale, own=own, scope=scope)


def _adds_up_exactly(own: FloatArray) -> bool:
    """Whether all values are whole numbers whose sums are exact in doubles."""
    return bool(own.sum(axis=-1).max() < _EXACT) and all(
        (own[..., begin : begin + CHUNK] == np.floor(own[..., begin : begin + CHUNK])).all()
        for begin in range(0, own.shape[-1], CHUNK)
    )


def compare_totals(prepared: Prepared, usage: FloatArray, group_usage: FloatArray) -> Compared:
    """Rebuild the result of `compare_usage` from the totals of an earlier result, whose tree competes alike."""
    total, scale = sweep.shrink_huge(usage)
    return Compared(prepared, total, group_usage / scale if scale != 1.0 else group_usage, scale)


def _check_usage(tree: FairshareTree, own: FloatArray) -> None:
    if own.ndim not in (1, 2) or own.shape[-1] != tree.n_entries or len(own) == 0:
        raise BadUsage(f"usage of shape {own.shape} doesn't fit a tree of {tree.n_entries} entries")
    low, high = float(own.min()), float(own.max())
    if not (low >= 0 and math.isfinite(high)):
        at = int(np.argmax((~((own >= 0) & np.isfinite(own))).reshape(-1, tree.n_entries).any(axis=0)))
        raise BadUsage("usage must be a finite number ≥ 0", place=tree.path(at), row=at)
    if tree.is_reserve.any():
        used = tree.is_reserve & (own.reshape(-1, tree.n_entries) > 0).any(axis=0)
        if used.any():
            at = int(np.argmax(used))
            raise BadUsage("a reserve can't have usage", place=tree.path(at), row=at)


def _read_scope(tree: FairshareTree, scope_of_entry: npt.ArrayLike | None, n_scopes: int) -> IntArray:
    if scope_of_entry is None:
        return np.zeros(tree.n_entries, dtype=np.int64)
    scope = np.asarray(scope_of_entry, dtype=np.int64)
    if scope.shape != (tree.n_entries,) or int(scope.min()) < 0 or int(scope.max()) >= n_scopes:
        raise BadUsage(f"scope_of_entry must name one of {n_scopes} scopes for each of {tree.n_entries} entries")
    return scope
