"""Primitives on a tree: sums and products by level, sorting within segments, and ranks of padded vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import CHUNK, BoolArray, FloatArray, IntArray, LongArray
from apps.engine.tree import FairshareTree, Level

# Sums below this stay finite doubles, whatever is rounded on the way.
_LARGE = 2.0**1022


def shrink_huge(values: FloatArray) -> tuple[FloatArray, float]:
    """Scale by a power of two if sums of `values` could overflow; return (values, what multiplies them back)."""
    if values.size == 0 or float(values.max()) < _LARGE / values.size:
        return values, 1.0
    shrink = 2.0 ** -(values.size.bit_length() + 2)  # by no more than it takes: the smallest must not become nothing
    return values * shrink, 1.0 / shrink


def sibling_sum(tree: FairshareTree, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Sum over the children of each entry, shape (n,): `out[g] = Σ values[c]`; 0 for entries without children."""
    sums = np.zeros(tree.n_entries, dtype=values.dtype)
    for level in tree.levels:
        sums[level.parents] = np.add.reduceat(values[level.lo : level.hi], level.starts)
    return sums


def sum_up(tree: FairshareTree, own: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return (totals, child sums), each (n,): `total = own + Σ totals of the children`, in the unit of `own`."""
    totals = own.copy()
    sums = np.zeros(tree.n_entries, dtype=own.dtype)
    for level in reversed(tree.levels):
        sums[level.parents] = np.add.reduceat(totals[level.lo : level.hi], level.starts)
        totals[level.parents] += sums[level.parents]
    return totals, sums


def sum_up_long(tree: FairshareTree, own: FloatArray) -> LongArray:
    """The totals of `sum_up` as long doubles, in any order: exact sums, rounded once.

    Numbers above 2^-52 of the largest total are summed exactly in doubles, those below in long doubles.
    """
    coarse = 1.5 * 2.0 ** math.frexp(float(own.sum()))[1]
    upper = (own + coarse) - coarse
    totals: LongArray = sum_up(tree, upper)[0].astype(np.longdouble)
    totals += sum_up(tree, (own - upper).astype(np.longdouble))[0]
    return totals


def divide_by_group(tree: FairshareTree, values: FloatArray, sums: FloatArray) -> FloatArray:
    """`values[c] / sums[parent of c]`, 0 where the group's sum is 0; the root is 1."""
    out = np.empty(tree.n_entries)
    out[0] = 1.0
    for level in tree.levels:
        divisor = sums[level.parents]
        empty = divisor == 0
        if empty.any():
            divisor = np.where(empty, np.inf, divisor)
        here, there = values[level.lo : level.hi], out[level.lo : level.hi]
        for groups, slots in _in_cache(level):
            np.divide(here[slots], np.repeat(divisor[groups], level.counts[groups]), out=there[slots])
    return out


def divide_parts(
    tree: FairshareTree,
    dividend: npt.NDArray[Any],
    divisor: npt.NDArray[Any],
    dividend_sums: npt.NDArray[Any],
    divisor_sums: npt.NDArray[Any],
) -> npt.NDArray[Any]:
    """`(dividend[c] / divisor[c]) · (divisor_sums[p] / dividend_sums[p])`, p the parent of c; the root is 1."""
    out = np.empty_like(dividend)
    out[0] = 1
    for level in tree.levels:
        here = slice(level.lo, level.hi)
        above, below, there = dividend[here], divisor[here], out[here]
        factor = divisor_sums[level.parents] / dividend_sums[level.parents]
        for groups, slots in _in_cache(level):
            np.divide(above[slots], below[slots], out=there[slots])
            there[slots] *= np.repeat(factor[groups], level.counts[groups])
    return out


def normalise_siblings(tree: FairshareTree, values: FloatArray) -> FloatArray:
    """Divide by the sum over siblings, shape (n,): adds up to 1 in every group, or is all 0. `values` ≥ 0."""
    if values.size and float(values.max()) >= _LARGE / values.size:
        values = _shrink_groups(tree, values)
    return divide_by_group(tree, values, sibling_sum(tree, values))


def _shrink_groups(tree: FairshareTree, values: FloatArray) -> FloatArray:
    """Each group times the power of two that takes its largest value to ½..1: no group loses beside a larger one."""
    shrunk = values.copy()
    for level in tree.levels:
        here = slice(level.lo, level.hi)
        exponent = np.frexp(np.maximum.reduceat(values[here], level.starts))[1]
        shrunk[here] = np.ldexp(values[here], -np.repeat(exponent, level.counts))
    return shrunk


def product_down(tree: FairshareTree, values: FloatArray) -> FloatArray:
    """Product root→entry, shape (n,); the root's factor is 1."""
    out = np.ones(tree.n_entries)
    for level in tree.levels:
        here = slice(level.lo, level.hi)
        out[here] = np.repeat(out[level.parents], level.counts) * values[here]
    return out


def segment_sort(segment: IntArray, values: FloatArray) -> IntArray:
    """Order by segment, then ascending by value; stable."""
    return np.lexsort((values, segment))


class Classes(NamedTuple):
    """The entries of one level, put in classes: equal vectors so far share one, a higher class is ahead.

    of_entry: class of each entry of the level. size: number of classes. begin: (m + 1,) first class of the block that
    continues class C of the level above. pad: (m,) the position of C's own padded vector among these classes. merged:
    (m,) class `pad[C]` *is* C's padded vector; otherwise it lies just below class `pad[C]`.
    """

    of_entry: IntArray
    size: int
    begin: IntArray
    pad: IntArray
    merged: BoolArray


Classify = Callable[[Level, IntArray, int], Classes]


def classes_of_scalars(scalars: IntArray, resolution: int) -> Classify:
    """Classes of integer components 0..r − 1; shorter vectors go on with the balance r//2.

    key = (dense class of the parent) · r + component, exact for any depth: below 2^20 · 2^31.
    """

    def classify(level: Level, class_of_group: IntArray, n_above: int) -> Classes:
        here, n_entries = scalars[level.lo : level.hi], level.hi - level.lo
        if level.grid is None:
            return _classes_of_keys(here, np.repeat(class_of_group, level.counts), n_above, resolution)
        is_shared = np.bincount(class_of_group)[class_of_group] > 1
        found = _Found(np.empty(n_entries, dtype=np.int64), *np.zeros((3, n_above), dtype=np.int64))
        in_order = np.empty(n_entries if is_shared.any() else 0, dtype=np.int64)
        _classify_rows(found, in_order, here, level, level.grid, class_of_group, resolution)
        if is_shared.any():
            groups = np.flatnonzero(is_shared)
            groups = groups[np.argsort(class_of_group[groups], kind="stable")]
            slots = in_order[_slots_of(level, groups)]
            above = np.repeat(class_of_group[groups], level.counts[groups])
            _correct(found, _classes_of_keys(here[slots], above, n_above, resolution), slots, above)
        begin = np.concatenate(([0], np.cumsum(found.size)))
        first = begin[class_of_group]
        for groups_here, slots_here in _in_cache(level):
            found.of_entry[slots_here] += np.repeat(first[groups_here], level.counts[groups_here])
        return Classes(found.of_entry, int(begin[-1]), begin, begin[:-1] + found.n_below, found.n_on > 0)

    return classify


def _classes_of_keys(scalars: IntArray, above: IntArray, n_above: int, resolution: int) -> Classes:
    """Classes by one sort of class above and component: quick where these come in sorted runs."""
    key = above * resolution
    key += scalars
    order, key = _sort_keys(key, n_above * resolution)
    first = np.empty(len(key), dtype=np.bool_)
    first[0] = True
    np.not_equal(key[1:], key[:-1], out=first[1:])
    heads = key[first]
    class_in_order = np.cumsum(first, out=key)
    class_in_order -= 1
    of_entry = np.empty(len(key), dtype=np.int64)
    of_entry[order] = class_in_order
    begin = np.searchsorted(heads, np.arange(n_above + 1) * resolution)
    balance = np.arange(n_above) * resolution + resolution // 2
    pad = np.searchsorted(heads, balance)
    merged = heads[np.minimum(pad, len(heads) - 1)] == balance
    return Classes(of_entry, len(heads), begin, pad, merged)


class _Found(NamedTuple):
    """of_entry: number of each entry's class among those that continue class C of the level above. Of each C:
    size, how many continue it; n_below, n_on: how many of these are below the balance, and on it."""

    of_entry: IntArray
    size: IntArray
    n_below: IntArray
    n_on: IntArray


def _slots_of(level: Level, groups: IntArray) -> IntArray:
    """The slots of these groups, group after group."""
    counts = level.counts[groups]
    begin = np.cumsum(counts) - counts
    slots = np.arange(int(counts.sum()))
    slots += np.repeat(level.starts[groups] - begin, counts)
    return slots


def _in_cache(level: Level) -> Iterator[tuple[slice, slice]]:
    """Groups of a level, and their slots, a few at a time."""
    if level.hi - level.lo <= CHUNK:
        yield slice(None), slice(None)
        return
    step = max(1, 2 * CHUNK * len(level.counts) // (level.hi - level.lo))
    for number in range(0, len(level.counts), step):
        last = min(number + step, len(level.counts)) - 1
        yield slice(number, last + 1), slice(int(level.starts[number]), int(level.starts[last] + level.counts[last]))


def _correct(found: _Found, shared: Classes, slots: IntArray, above: IntArray) -> None:
    """Put in what holds for classes that several groups continue: their `slots` together."""
    found.of_entry[slots] = shared.of_entry - shared.begin[above]
    size = np.diff(shared.begin)
    is_shared = size > 0
    found.size[is_shared] = size[is_shared]
    found.n_below[is_shared] = (shared.pad - shared.begin[:-1])[is_shared]
    found.n_on[is_shared] = shared.merged[is_shared]


def _classify_rows(
    found: _Found,
    in_order: IntArray,
    scalars: IntArray,
    level: Level,
    grid: BoolArray,
    class_of_group: IntArray,
    resolution: int,
) -> None:
    """Fill in what holds where each group continues a class of its own; and slots `in_order`, unless that is empty.

    Rows of component and place in the group, in the narrowest integers that hold both, some at a time in the cache.
    """
    width, balance = grid.shape[1], resolution // 2
    place_bits = (width - 1).bit_length()
    is_narrow = (resolution - 1).bit_length() + place_bits <= 31
    kind: type[np.int32] | type[np.int64] = np.int32 if is_narrow else np.int64
    columns = np.arange(width).astype(kind)
    for groups, slots in _in_cache(level):
        filled, starts, counts = grid[groups], level.starts[groups], level.counts[groups]
        heads = starts - starts[0]
        rows = np.full(filled.shape, np.iinfo(kind).max >> place_bits, dtype=kind)
        rows[filled] = scalars[slots]
        rows <<= place_bits
        np.add(rows, columns, out=rows)
        rows.sort(axis=1)
        key = rows[filled]
        component = key >> place_bits
        first = np.empty(len(key), dtype=np.bool_)
        np.not_equal(component[1:], component[:-1], out=first[1:])
        first[heads] = True
        running: IntArray = np.cumsum(first, dtype=np.int64)
        running -= np.repeat(running[heads], counts)
        key &= (1 << place_bits) - 1
        slot = key + np.repeat(starts, counts)
        found.of_entry[slot] = running
        if len(in_order):
            in_order[slots] = slot
        continued = class_of_group[groups]
        found.size[continued] = np.add.reduceat(first, heads, dtype=np.int64)
        found.n_below[continued] = np.add.reduceat(first & (component < balance), heads, dtype=np.int64)
        found.n_on[continued] = np.add.reduceat(component == balance, heads, dtype=np.int64)


def classes_of_numbers(
    values: FloatArray, tolerance: float, heads: FloatArray | None = None, *, is_root_listed: bool = False
) -> Classify:
    """Classes of real components: neighbours within `tolerance` tie; shorter vectors go on with 0.

    is_root_listed: whether any entry has the root's empty vector; else that one makes no others tie. heads: (n,) filled
    level by level with one number for all of a class: its least, or 0 where a shorter vector is in.
    """

    def classify(level: Level, class_of_group: IntArray, n_above: int) -> Classes:
        above = np.repeat(class_of_group, level.counts)
        n = level.hi - level.lo
        segment = np.concatenate((above, np.arange(n_above)))  # one padded vector for each class above
        number = np.concatenate((values[level.lo : level.hi], np.zeros(n_above)))
        order = segment_sort(segment, number)
        first = np.ones(n + n_above, dtype=np.bool_)
        first[1:] = (np.diff(segment[order]) != 0) | (np.diff(number[order]) > tolerance)
        if level.lo == 1 and not is_root_listed:
            _cut_at_root(number[order], first, int(np.flatnonzero(order == n)[0]), tolerance)
        item_class = np.empty(n + n_above, dtype=np.int64)
        item_class[order] = np.cumsum(first) - 1
        is_real = np.zeros(int(first.sum()), dtype=np.bool_)
        is_real[item_class[:n]] = True
        real_below = np.concatenate(([0], np.cumsum(is_real)))
        starts = np.flatnonzero(np.diff(segment[order], prepend=-1))
        begin = np.append(real_below[item_class[order[starts]]], real_below[-1])
        pads = item_class[n:]
        if heads is not None:
            head = number[order[first]]
            head[pads] = 0.0
            heads[level.lo : level.hi] = head[item_class[:n]]
        return Classes(real_below[item_class[:n]], int(real_below[-1]), begin, real_below[pads], is_real[pads])

    return classify


def _cut_at_root(number: FloatArray, first: BoolArray, at: int, tolerance: float) -> None:
    """Where numbers in order tie only through the root's own 0 `at` this place, it ties with the nearer one alone."""
    below, above = number[at - 1 : at], number[at + 1 : at + 2]
    if len(below) and len(above) and above[0] - below[0] > tolerance and not first[at : at + 2].any():
        first[at if above[0] <= -below[0] else at + 1] = True


def _sort_keys(key: IntArray, limit: int) -> tuple[IntArray, IntArray]:
    """Return (stable order, sorted keys) of keys in 0..limit − 1, by one sort of key and index packed if they fit.

    `key` is used up: at a million entries, memory that isn't allocated again is a third of the time.
    """
    index_bits = (len(key) - 1).bit_length()
    if (limit - 1).bit_length() + index_bits > 63:
        order = np.argsort(key, kind="stable")
        return order, key[order]
    key <<= index_bits
    key |= np.arange(len(key))
    key.sort(kind="stable")
    order = key & ((1 << index_bits) - 1)
    key >>= index_bits
    return order, key


def count_ahead(tree: FairshareTree, classify: Classify, ends: IntArray) -> IntArray:
    """Ranked leaves whose padded vector is strictly ahead of each entry's, shape (n,).

    ends: (n,) how many ranked leaves have exactly this entry's vector because they sit there. `1 + count_ahead` is the
    rank with ties (1, 1, 3). Classes are made once a level, counted bottom-up, and placed top-down: exact for any
    depth, O(n log n), and a vector that ends early is compared as if padded.
    """
    steps, seated, classes = _classify_levels(tree, classify, ends)
    running = _count_within(steps, seated)
    return _place(tree, steps, seated, running, classes)


def class_heads(
    tree: FairshareTree, values: FloatArray, tolerance: float, ends: IntArray, *, is_root_listed: bool
) -> FloatArray:
    """Each entry's number, or that of its class where it ties, (n,): compared exactly they order as `count_ahead`."""
    heads = values.copy()
    _classify_levels(tree, classes_of_numbers(values, tolerance, heads, is_root_listed=is_root_listed), ends)
    return heads


def _classify_levels(
    tree: FairshareTree, classify: Classify, ends: IntArray
) -> tuple[list[Classes], list[IntArray], list[IntArray]]:
    """Top-down: classes of each level, the leaves that end in each class, and the class of each entry."""
    steps: list[Classes] = []
    seated = [ends[:1].copy()]
    classes: list[IntArray] = [np.zeros(1, dtype=np.int64)]
    first_above = 0
    for level in tree.levels:
        step = classify(level, classes[-1][level.parents - first_above], len(seated[-1]))
        here = ends[level.lo : level.hi]
        all_end = bool((here == 1).all())
        counts = np.bincount(step.of_entry, None if all_end else here, minlength=step.size).astype(np.int64)
        moved = np.where(step.merged, seated[-1], 0)
        counts[step.pad[step.merged]] += moved[step.merged]
        seated[-1] = seated[-1] - moved
        steps.append(step)
        seated.append(counts)
        classes.append(step.of_entry)
        first_above = level.lo
    return steps, seated, classes


def _count_within(steps: list[Classes], seated: list[IntArray]) -> list[IntArray]:
    """Bottom-up: for each level the running number of leaves in its classes, (m + 1,), deeper ones included."""
    running: list[IntArray] = []
    below: IntArray | None = None
    for k in range(len(seated) - 1, -1, -1):
        within = seated[k]
        if below is not None:
            begin = steps[k].begin
            within = within + (below[begin[1:]] - below[begin[:-1]])
        below = np.zeros(len(within) + 1, dtype=np.int64)
        np.cumsum(within, out=below[1:])
        running.append(below)
    running.reverse()
    return running


def _place(
    tree: FairshareTree, steps: list[Classes], seated: list[IntArray], running: list[IntArray], classes: list[IntArray]
) -> IntArray:
    """Top-down: leaves ahead of each block of classes; bottom-up: leaves ahead of each class's own padded vector."""
    blocks = [np.zeros(1, dtype=np.int64)]
    for step, loose, total in zip(steps, seated, running[1:], strict=False):
        sizes = np.diff(step.begin)
        block_end = blocks[-1] + total[step.begin[1:]]
        ahead = np.repeat(block_end, sizes)
        ahead -= total[1:]
        if loose.any():  # leaves that end above lie between the classes of their block
            passed = np.arange(step.size) < np.repeat(step.pad, sizes)
            ahead += np.where(passed, np.repeat(loose, sizes), 0)
        blocks.append(ahead)
    own = blocks[-1]
    result = np.empty(tree.n_entries, dtype=np.int64)
    for k in range(len(classes) - 1, -1, -1):
        if k < len(steps):
            step, total = steps[k], running[k + 1]
            beside = blocks[k] + total[step.begin[1:]] - total[step.pad]
            merged_at = np.minimum(step.pad, step.size - 1)
            own = np.where(step.merged, own[merged_at], beside)
        here = result[tree.level_offsets[k] : tree.level_offsets[k + 1]]
        np.take(own, classes[k], out=here, mode="clip")  # classes are within bounds; to raise would take a copy
    return result
