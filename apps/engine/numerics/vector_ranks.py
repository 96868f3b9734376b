"""Ranks of padded vectors: entries of equal vectors are put into classes level by level, and leaves ahead are counted.

The vector of an entry has one component for each level from the root to it. Vectors are compared lexicographically,
higher first; a shorter one is padded. The classes of a level are numbered in ascending order of their vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.tree import FairshareTree, Level


class Classes(NamedTuple):
    """The entries of one level in classes: entries whose vectors are equal down to here share a class.

    of_entry: class of each entry of the level. size: number of classes. begin: (m + 1,) for each class C of the level
    above the first class that continues it. pad: (m,) position of C's own padded vector among the classes. merged: (m,)
    class `pad[C]` has exactly this padded vector; otherwise the padded vector is just below class `pad[C]`.
    """

    of_entry: IntArray
    size: int
    begin: IntArray
    pad: IntArray
    merged: BoolArray


# Arguments: level, class of the parent of each sibling group, number of classes of the level above.
Classify = Callable[[Level, IntArray, int], Classes]


def classes_of_scalars(scalars: IntArray, resolution: int) -> Classify:
    """Classes of integer components 0..r − 1; shorter vectors are padded with the balance r//2.

    Entries are in one class if key = (class of the parent) · r + component is equal. Keys are exact at any depth,
    because they stay below 2^20 · 2^31.
    """

    def classify(level: Level, class_of_group: IntArray, n_above: int) -> Classes:
        here = scalars[level.lo : level.hi]
        if level.grid is None:
            return _classify_by_key(here, np.repeat(class_of_group, level.counts), n_above, resolution)
        return _classify_grid(here, level, level.grid, class_of_group, n_above, resolution)

    return classify


def _classify_by_key(scalars: IntArray, class_above: IntArray, n_above: int, resolution: int) -> Classes:
    """Classes by one sort of the keys, which is fast where parents' classes come in sorted runs."""
    key = class_above * resolution
    key += scalars
    order, key = sort_keys(key, n_above * resolution)
    first = np.empty(len(key), dtype=np.bool_)
    first[0] = True
    np.not_equal(key[1:], key[:-1], out=first[1:])
    class_key = key[first]
    class_in_order = np.cumsum(first, out=key)
    class_in_order -= 1
    of_entry = np.empty(len(key), dtype=np.int64)
    of_entry[order] = class_in_order
    begin = np.searchsorted(class_key, np.arange(n_above + 1) * resolution)
    pad_key = np.arange(n_above) * resolution + resolution // 2
    pad = np.searchsorted(class_key, pad_key)
    merged = class_key[np.minimum(pad, len(class_key) - 1)] == pad_key
    return Classes(of_entry, len(class_key), begin, pad, merged)


def sort_keys(key: IntArray, limit: int) -> tuple[IntArray, IntArray]:
    """Return (stable order, sorted keys) of keys in 0..limit − 1, by one sort of key and index packed if they fit.

    Overwrites `key`: at a million entries, allocating more memory would take a third of the time.
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


class _Continued(NamedTuple):
    """How the classes of the level above continue.

    of_entry: number of each entry's class among those that continue its parent's class. For each class above: size,
    the number of classes that continue it; n_below and n_on, how many of these are below the balance and on it.
    """

    of_entry: IntArray
    size: IntArray
    n_below: IntArray
    n_on: IntArray


def _classify_grid(
    scalars: IntArray, level: Level, grid: BoolArray, class_of_group: IntArray, n_above: int, resolution: int
) -> Classes:
    """Classes by sorting each sibling group on its own, for levels of many short groups.

    Where several groups have parents of the same class, their entries are classified together by key.
    """
    n_entries = level.hi - level.lo
    is_shared = np.bincount(class_of_group)[class_of_group] > 1
    continued = _Continued(np.empty(n_entries, dtype=np.int64), *np.zeros((3, n_above), dtype=np.int64))
    slots_in_order = np.empty(n_entries if is_shared.any() else 0, dtype=np.int64)
    rows = _GridRows(level, grid, resolution)
    for groups, slots in level.chunks():
        rows.classify(groups, scalars[slots], class_of_group[groups], continued, slots_in_order[slots])
    if is_shared.any():
        groups_by_class = np.flatnonzero(is_shared)
        groups_by_class = groups_by_class[np.argsort(class_of_group[groups_by_class], kind="stable")]
        slots_by_class = slots_in_order[_slots_of(level, groups_by_class)]
        class_above = np.repeat(class_of_group[groups_by_class], level.counts[groups_by_class])
        shared = _classify_by_key(scalars[slots_by_class], class_above, n_above, resolution)
        _correct(continued, shared, slots_by_class, class_above)
    begin = np.concatenate(([0], np.cumsum(continued.size)))
    first = begin[class_of_group]
    for groups, slots in level.chunks():
        continued.of_entry[slots] += np.repeat(first[groups], level.counts[groups])
    return Classes(continued.of_entry, int(begin[-1]), begin, begin[:-1] + continued.n_below, continued.n_on > 0)


class _GridRows:
    """Sibling groups of a level as rows of packed integers: component, then position in the group.

    The integers are the narrowest that hold both.
    """

    def __init__(self, level: Level, grid: BoolArray, resolution: int) -> None:
        self.level, self.grid, self.balance = level, grid, resolution // 2
        width = grid.shape[1]
        self.position_bits = (width - 1).bit_length()
        is_narrow = (resolution - 1).bit_length() + self.position_bits <= 31
        self.kind: type[np.int32] | type[np.int64] = np.int32 if is_narrow else np.int64
        self.columns = np.arange(width).astype(self.kind)

    def classify(
        self,
        groups: slice,
        scalars: IntArray,
        class_above: IntArray,
        continued: _Continued,
        slots_in_order: IntArray,
    ) -> None:
        """Fill `continued` as if each group continued a class alone; fill `slots_in_order` unless it is empty."""
        filled, starts, counts = self.grid[groups], self.level.starts[groups], self.level.counts[groups]
        heads = starts - starts[0]
        rows = np.full(filled.shape, np.iinfo(self.kind).max >> self.position_bits, dtype=self.kind)
        rows[filled] = scalars
        rows <<= self.position_bits
        np.add(rows, self.columns, out=rows)
        rows.sort(axis=1)
        key = rows[filled]
        component = key >> self.position_bits
        first = np.empty(len(key), dtype=np.bool_)
        np.not_equal(component[1:], component[:-1], out=first[1:])
        first[heads] = True
        running: IntArray = np.cumsum(first, dtype=np.int64)
        running -= np.repeat(running[heads], counts)
        key &= (1 << self.position_bits) - 1
        slot = key + np.repeat(starts, counts)
        continued.of_entry[slot] = running
        if len(slots_in_order):
            slots_in_order[:] = slot
        continued.size[class_above] = np.add.reduceat(first, heads, dtype=np.int64)
        continued.n_below[class_above] = np.add.reduceat(first & (component < self.balance), heads, dtype=np.int64)
        continued.n_on[class_above] = np.add.reduceat(component == self.balance, heads, dtype=np.int64)


def _slots_of(level: Level, groups: IntArray) -> IntArray:
    """The slots of these groups, group after group."""
    counts = level.counts[groups]
    begin = np.cumsum(counts) - counts
    slots = np.arange(int(counts.sum()))
    slots += np.repeat(level.starts[groups] - begin, counts)
    return slots


def _correct(continued: _Continued, shared: Classes, slots: IntArray, class_above: IntArray) -> None:
    """Overwrite the numbers of classes that several groups continue with those of `shared`."""
    continued.of_entry[slots] = shared.of_entry - shared.begin[class_above]
    size = np.diff(shared.begin)
    is_shared = size > 0
    continued.size[is_shared] = size[is_shared]
    continued.n_below[is_shared] = (shared.pad - shared.begin[:-1])[is_shared]
    continued.n_on[is_shared] = shared.merged[is_shared]


def classes_of_numbers(
    values: FloatArray, tolerance: float, heads: FloatArray | None = None, *, is_root_listed: bool = False
) -> Classify:
    """Classes of real components: neighbours within `tolerance` tie; shorter vectors are padded with 0.

    is_root_listed: whether any entry has the root's empty vector; otherwise that vector makes no others tie. heads:
    (n,) filled level by level with one number for each class: its smallest, or 0 if a padded vector is in the class.
    """

    def classify(level: Level, class_of_group: IntArray, n_above: int) -> Classes:
        class_above = np.repeat(class_of_group, level.counts)
        n = level.hi - level.lo
        segment = np.concatenate((class_above, np.arange(n_above)))  # one padded vector for each class above
        number = np.concatenate((values[level.lo : level.hi], np.zeros(n_above)))
        order = np.lexsort((number, segment))
        first = np.ones(n + n_above, dtype=np.bool_)
        first[1:] = (np.diff(segment[order]) != 0) | (np.diff(number[order]) > tolerance)
        if level.lo == 1 and not is_root_listed:
            _separate_at_root(number[order], first, int(np.flatnonzero(order == n)[0]), tolerance)
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


def _separate_at_root(number: FloatArray, first: BoolArray, at: int, tolerance: float) -> None:
    """Separate sorted numbers that tie only through the root's 0, which is at index `at`: it ties with the nearer one.

    Changes `first` in place.
    """
    below, above = number[at - 1 : at], number[at + 1 : at + 2]
    if len(below) and len(above) and above[0] - below[0] > tolerance and not first[at : at + 2].any():
        first[at if above[0] <= -below[0] else at + 1] = True


def count_ahead(tree: FairshareTree, classify: Classify, ends: IntArray) -> IntArray:
    """Number of ranked leaves whose padded vector is strictly ahead of each entry's, shape (n,).

    rank = 1 + count_ahead, with ties (1, 1, 3). ends: (n,) number of ranked leaves whose vector is exactly that of the
    entry. Exact for any depth, O(n log n): each level is classified once, counted bottom-up and ordered top-down.
    """
    steps, ending, classes = _classify_levels(tree, classify, ends)
    running = _count_within(steps, ending)
    return _count_ahead_of_classes(tree, steps, ending, running, classes)


def class_heads(
    tree: FairshareTree, values: FloatArray, tolerance: float, ends: IntArray, *, is_root_listed: bool
) -> FloatArray:
    """Each entry's number, or one number for all entries of its class, (n,).

    Compared exactly, these numbers order entries as `count_ahead` does.
    """
    heads = values.copy()
    _classify_levels(tree, classes_of_numbers(values, tolerance, heads, is_root_listed=is_root_listed), ends)
    return heads


def _classify_levels(
    tree: FairshareTree, classify: Classify, ends: IntArray
) -> tuple[list[Classes], list[IntArray], list[IntArray]]:
    """Top-down: classes of each level, number of leaves that end in each class, and class of each entry."""
    steps: list[Classes] = []
    ending = [ends[:1].copy()]
    classes: list[IntArray] = [np.zeros(1, dtype=np.int64)]
    first_above = 0
    for level in tree.levels:
        step = classify(level, classes[-1][level.parents - first_above], len(ending[-1]))
        here = ends[level.lo : level.hi]
        all_end = bool((here == 1).all())
        counts = np.bincount(step.of_entry, None if all_end else here, minlength=step.size).astype(np.int64)
        moved = np.where(step.merged, ending[-1], 0)
        counts[step.pad[step.merged]] += moved[step.merged]
        ending[-1] = ending[-1] - moved
        steps.append(step)
        ending.append(counts)
        classes.append(step.of_entry)
        first_above = level.lo
    return steps, ending, classes


def _count_within(steps: list[Classes], ending: list[IntArray]) -> list[IntArray]:
    """Bottom-up: for each level the running number of leaves in its classes and below them, (m + 1,)."""
    running: list[IntArray] = []
    below: IntArray | None = None
    for k in range(len(ending) - 1, -1, -1):
        within = ending[k]
        if below is not None:
            begin = steps[k].begin
            within = within + (below[begin[1:]] - below[begin[:-1]])
        below = np.zeros(len(within) + 1, dtype=np.int64)
        np.cumsum(within, out=below[1:])
        running.append(below)
    running.reverse()
    return running


def _count_ahead_of_classes(
    tree: FairshareTree, steps: list[Classes], ending: list[IntArray], running: list[IntArray], classes: list[IntArray]
) -> IntArray:
    """Top-down: leaves ahead of the classes of each level; bottom-up: leaves ahead of each entry's padded vector."""
    blocks = [np.zeros(1, dtype=np.int64)]
    for step, n_ending_above, total in zip(steps, ending, running[1:], strict=False):
        sizes = np.diff(step.begin)
        block_end = blocks[-1] + total[step.begin[1:]]
        ahead = np.repeat(block_end, sizes)
        ahead -= total[1:]
        if n_ending_above.any():  # leaves of the level above are between the classes that continue their class
            is_behind = np.arange(step.size) < np.repeat(step.pad, sizes)
            ahead += np.where(is_behind, np.repeat(n_ending_above, sizes), 0)
        blocks.append(ahead)
    own = blocks[-1]
    result = np.empty(tree.n_entries, dtype=np.int64)
    for k in range(len(classes) - 1, -1, -1):
        if k < len(steps):
            step, total = steps[k], running[k + 1]
            ahead_of_pad = blocks[k] + total[step.begin[1:]] - total[step.pad]
            merged_at = np.minimum(step.pad, step.size - 1)
            own = np.where(step.merged, own[merged_at], ahead_of_pad)
        here = result[tree.level_offsets[k] : tree.level_offsets[k + 1]]
        np.take(own, classes[k], out=here, mode="clip")  # all classes are within bounds; mode "raise" would copy
    return result
