"""Effects of a resolution on a whole tree: collisions of leaves, reversed pairs, and the bits that a job needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from apps.engine import codecs, sweep
from apps.engine.algorithms.aequus import puts_zero_shares_last
from apps.engine.algorithms.base import PriorityResult
from apps.engine.algorithms.inputs import prepare
from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.numerics import vector_ranks
from apps.engine.operators import ON_TARGET_TOLERANCE, Operator
from apps.engine.tree import FairshareTree

_MOST_TREE_BITS = 31
_SCANNED = 1 << 16
_CLOSEST_PAIRS = 256
_FINEST_BITS = 31  # codecs.MAX_RESOLUTION


def changed_pairs(before: IntArray, after: IntArray) -> tuple[int, int]:
    """(pairs that differ before and tie after, pairs in reversed order) of two rankings of the same leaves.

    before, after: (n,) ranks; equal ones tie. O(n log² n), a merge sort that counts level by level.
    """
    most = int(after.max(initial=0)) + 1
    _, both = np.unique(before * most + after, return_counts=True)
    _, tied = np.unique(after, return_counts=True)
    order = np.lexsort((after, before))
    return int(_pairs(tied) - _pairs(both)), _inversions(after[order])


def _out_of_order(values: IntArray) -> BoolArray:
    """Values with a larger value before or a smaller one after them; all others are in no inversion."""
    largest_before = np.maximum.accumulate(values)
    smallest_after = np.minimum.accumulate(values[::-1])[::-1]
    is_out_of_order: BoolArray = (values < largest_before) | (values > smallest_after)
    return is_out_of_order


def _pairs(sizes: IntArray) -> int:
    return int((sizes * (sizes - 1) // 2).sum())


def _inversions(values: IntArray) -> int:
    """Number of pairs of positions whose values are in descending order."""
    values = values[_out_of_order(values)]
    _, dense = np.unique(values, return_inverse=True)
    n = len(dense)
    span = 1 << max(n - 1, 0).bit_length()
    row = np.full(span, n, dtype=np.int64)  # padding is larger than all values and at the end, so it adds no inversion
    row[:n] = dense
    count, width = 0, 1
    while width < span:
        blocks = row.reshape(-1, 2, width)
        apart = np.arange(len(blocks), dtype=np.int64)[:, None] * (n + 1)
        left, right = (blocks[:, 0] + apart).ravel(), (blocks[:, 1] + apart).ravel()
        upto = np.searchsorted(left, right, side="right").reshape(-1, width) - apart // (n + 1) * width
        count += int((width - upto).sum())
        row = np.sort(row.reshape(-1, 2 * width), axis=1).ravel()
        width *= 2
    return count


@dataclass(frozen=True)
class Collisions:
    """Effects of a resolution on the ranked leaves of a tree, or on chosen leaves among themselves.

    n_sharing: leaves whose vector another leaf has, too; largest: most leaves on one
    vector. n_lost: leaves that share a vector with one whose unrounded priorities differ. n_misplaced: leaves whose
    rank differs from that by unrounded priorities. If a distinction is lost at an upper level, the level below decides,
    so leaves may be misplaced though all vectors are distinct. n_pairs: pairs of leaves with another order;
    n_tied_pairs of them tie only by rounding, n_turned_pairs are reversed.
    """

    resolution: int
    n_leaves: int
    n_sharing: int
    largest: int
    n_lost: int
    n_misplaced: int
    n_tied_pairs: int
    n_turned_pairs: int

    @property
    def n_pairs(self) -> int:
        return self.n_tied_pairs + self.n_turned_pairs


def collisions(result: PriorityResult, resolution: int, *, leaves: BoolArray | None = None) -> Collisions:
    """Count what priorities −1..1 of `result` lose at a resolution, 2..2^31. O(n log² n).

    leaves: (n,) entries of the tree; ranked leaves beyond them are left out, and ranks are those among the rest.
    Source: operators paper, §2.2 and figure 5.
    """
    return collisions_at(result, [resolution], leaves=leaves)[0]


def collisions_at(
    result: PriorityResult, resolutions: Iterable[int], *, leaves: BoolArray | None = None
) -> list[Collisions]:
    """Collisions at several resolutions, in their order; exact parts are computed once."""
    chosen = _chosen(result, leaves)
    exact = ranks_among(exact_ahead(result)[chosen])
    return [_count(exact, ranks_among(rounded_ahead(result, each)[chosen]), each) for each in resolutions]


def _count(exact: IntArray, rounded: IntArray, resolution: int) -> Collisions:
    size = np.bincount(rounded)
    is_misplaced = exact != rounded
    n_tied, n_turned = changed_pairs(exact, rounded) if is_misplaced.any() else (0, 0)
    return Collisions(
        resolution=resolution,
        n_leaves=len(rounded),
        n_sharing=int((size[rounded] > 1).sum()),
        largest=int(size.max(initial=0)),
        n_lost=int(_is_lost(exact, rounded).sum()),
        n_misplaced=int(is_misplaced.sum()),
        n_tied_pairs=n_tied,
        n_turned_pairs=n_turned,
    )


def ranks_among(ahead: IntArray) -> IntArray:
    """1 + the number of these leaves strictly ahead of each, from counts over a larger set."""
    size = np.bincount(ahead)
    ranks: IntArray = (1 + np.cumsum(size) - size)[ahead]
    return ranks


def _chosen(result: PriorityResult, leaves: BoolArray | None) -> BoolArray:
    """Mask of the ranked leaves that are among `leaves`, in tree order."""
    ranked = result.tree.is_ranked
    return np.ones(int(ranked.sum()), dtype=np.bool_) if leaves is None else leaves[ranked]


@dataclass(frozen=True)
class LeastResolution:
    """bits: the fewest with which 2^bits loses nothing, None beyond 31. resolution: the least that loses nothing.

    A resolution that isn't a power of two may be smaller, and a larger one may lose a distinction again:
    bucket edges move. All up to 65,536 are tried; beyond, `resolution` is 2^bits.
    """

    bits: int | None
    resolution: int | None


def least_resolution(result: PriorityResult) -> LeastResolution:
    """The lowest resolution at which leaves share a vector only if their unrounded priorities tie at all levels."""
    exact = exact_ahead(result)

    def is_enough(resolution: int) -> bool:
        return not _is_lost(exact, rounded_ahead(result, resolution)).any()

    bits = next((bits for bits in range(1, _MOST_TREE_BITS + 1) if is_enough(2**bits)), None)
    if bits is None:
        return LeastResolution(None, None)
    candidates = np.arange(2, min(2**bits, _SCANNED + 1))
    for resolution in candidates[_distinguishes(_closest_siblings(result), candidates)].tolist():
        if is_enough(resolution):
            return LeastResolution(bits, resolution)
    return LeastResolution(bits, 2**bits)


@dataclass(frozen=True)
class SafeBits:
    """Fewest bits 1..31 of a component; None where even 31 aren't enough.

    distinct: 2^bits loses no distinction. same_ranks: from here on every 2^bits gives each leaf its exact rank.
    """

    distinct: int | None
    same_ranks: int | None


def safe_bits(result: PriorityResult, *, leaves: BoolArray | None = None) -> SafeBits:
    """The powers of two from which on nothing is lost, and no leaf is misplaced. leaves: (n,) entries to consider."""
    chosen = _chosen(result, leaves)
    exact = ranks_among(exact_ahead(result)[chosen])
    distinct: int | None = None
    same_ranks: int | None = None
    is_same = True
    for bits in range(_MOST_TREE_BITS, 0, -1):
        rounded = ranks_among(rounded_ahead(result, 2**bits)[chosen])
        is_same = is_same and bool((exact == rounded).all())
        same_ranks = bits if is_same else same_ranks
        if _is_lost(exact, rounded).any():
            break  # fewer bits lose it, too: their components are unions of these
        distinct = bits
    return SafeBits(distinct, same_ranks)


def exact_ahead(result: PriorityResult) -> IntArray:
    """Leaves ahead of each ranked leaf by unrounded priorities, level by level, ties within the tolerance."""
    prepared = prepare(result.tree)
    classify = vector_ranks.classes_of_numbers(
        result.priority[prepared.entry], ON_TARGET_TOLERANCE, is_root_listed=prepared.is_root_listed
    )
    return vector_ranks.count_ahead(prepared.contest, classify, prepared.ends)[prepared.seat[result.tree.is_ranked]]


def rounded_ahead(result: PriorityResult, resolution: int) -> IntArray:
    """Leaves ahead of each ranked leaf by components at this resolution."""
    prepared = prepare(result.tree)
    scalars = codecs.scalar(result.priority[prepared.entry], resolution)
    if puts_zero_shares_last(result.settings):
        scalars = np.where(prepared.target == 0, 0, np.maximum(scalars, 1))
    classify = vector_ranks.classes_of_scalars(scalars, resolution)
    return vector_ranks.count_ahead(prepared.contest, classify, prepared.ends)[prepared.seat[result.tree.is_ranked]]


def _is_lost(exact: IntArray, rounded: IntArray) -> BoolArray:
    """Mask of leaves in a class of `rounded` that contains more than one class of `exact`. Both are counts or ranks."""
    one_of_class = np.zeros(int(rounded.max(initial=0)) + 1, np.int64)
    one_of_class[rounded] = exact
    is_mixed = np.zeros(len(one_of_class), np.bool_)
    is_mixed[rounded[exact != one_of_class[rounded]]] = True
    lost: BoolArray = is_mixed[rounded]
    return lost


def _closest_siblings(result: PriorityResult) -> FloatArray:
    """Pairs of priorities of leaves in one group that are nearest to each other without a tie, (pairs, 2).

    Siblings without children on both sides differ in this component alone, so it must distinguish them.
    """
    prepared = prepare(result.tree)
    contest = prepared.contest
    is_leaf = np.zeros(contest.n_entries, dtype=np.bool_)
    is_leaf[prepared.seat[result.tree.is_ranked]] = True
    leaves = np.flatnonzero(contest.is_ranked & (prepared.ends == 1) & is_leaf)
    priority = result.priority[prepared.entry]
    order = leaves[np.lexsort((priority[leaves], contest.parent[leaves]))]
    gap = np.diff(priority[order])
    is_pair = (np.diff(contest.parent[order]) == 0) & (gap > ON_TARGET_TOLERANCE)
    at = np.flatnonzero(is_pair)
    at = at[np.argsort(gap[at], kind="stable")[:_CLOSEST_PAIRS]]
    return np.stack([priority[order[at]], priority[order[at + 1]]], axis=1)


def _distinguishes(pairs: FloatArray, resolutions: IntArray) -> BoolArray:
    """For each resolution: does it distinguish all pairs?"""
    is_apart = np.ones(len(resolutions), dtype=np.bool_)
    for low, high in pairs:
        is_apart &= codecs.components(low, resolutions) != codecs.components(high, resolutions)
    return is_apart


@dataclass(frozen=True)
class LevelBits:
    """One level. bits: the most that any of its entries needs. n_unseen: entries for which no number of bits is enough.

    Of these n_fixed have no shares, or all usage: their priority doesn't change whatever they run. At the others the
    operator changes it by less than the finest resolution shows.
    """

    level: int
    n_entries: int
    bits: int
    n_unseen: int
    n_fixed: int


@dataclass(frozen=True)
class TreeBits:
    """levels: one by one, from below the root. A vector has one component for each, `depth` of them."""

    levels: tuple[LevelBits, ...]

    @property
    def depth(self) -> int:
        return len(self.levels)

    @property
    def bits(self) -> int:
        """Bits of one component, if all levels have one resolution 2^bits."""
        return max((level.bits for level in self.levels), default=0)


def bits_now(
    result: PriorityResult, operator: Operator, job_usage: float, *, entries: BoolArray | None = None
) -> TreeBits:
    """Bits at which one job of this usage, by whichever leaf, shows on every level, given the usage of `result`.

    Exact: for each entry with ranked leaves below, F(t, s) and F(t, (u + job)/(g + job)) are made components at 2^b;
    the fewest b at which they differ counts. Powers of two nest, so more bits show the job, too. job_usage: > 0, in the
    unit of the result's usage; u and g are the entry's and its group's. entries: (n,) those of the tree that count.
    """
    prepared = prepare(result.tree)
    contest = prepared.contest
    counts = _has_leaves(contest, prepared.ends)
    if entries is not None:
        counts &= entries[prepared.entry]
    usage = result.usage[prepared.entry]
    group = sweep.sibling_sum(contest, usage)[np.maximum(contest.parent, 0)]
    after = (usage + job_usage) / (group + job_usage)
    now, then = operator(prepared.target, result.actual[prepared.entry]), operator(prepared.target, after)
    needed = np.zeros(contest.n_entries, dtype=np.int64)
    for bits in range(_FINEST_BITS, 0, -1):
        needed[codecs.scalar(now, 2**bits) != codecs.scalar(then, 2**bits)] = bits
    is_fixed = (prepared.target <= 0) | ((usage == group) & (group > 0))
    return _by_level(contest, needed, counts, is_fixed, prepared.depth)


def _has_leaves(contest: FairshareTree, ends: IntArray) -> BoolArray:
    below, _ = sweep.sum_up(contest, ends.astype(np.float64))
    return below > 0


def _by_level(contest: FairshareTree, needed: IntArray, counts: BoolArray, is_fixed: BoolArray, depth: int) -> TreeBits:
    def levels() -> Iterable[LevelBits]:
        for number, level in enumerate(contest.levels[:depth], start=1):
            at = np.flatnonzero(counts[level.lo : level.hi]) + level.lo
            here, is_unseen = needed[at], needed[at] == 0
            n_unseen, n_fixed = int(is_unseen.sum()), int((is_unseen & is_fixed[at]).sum())
            yield LevelBits(number, len(at), int(here.max(initial=0)), n_unseen, n_fixed)

    return TreeBits(tuple(levels()))
