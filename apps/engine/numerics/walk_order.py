"""Best-first walk of a share tree: sort each sibling list by value, mark ties, and return each entry's position."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.tree import FairshareTree, Level

# Slots processed at once, if no list is longer, so that intermediate arrays stay in the processor's cache.
_BLOCK = 1 << 15
# Lists up to this width are sorted as rows of equal width, by sorting networks; wider ones one at a time.
_WIDEST_ROW = 256
_FEWEST_IN_ROWS = 2048

# The bits of infinity: doubles ≥ 0 order as their bits do.
_INFINITE = np.int64(0x7FF << 52)
# At least this many low bits are ignored when sorting: values a few units in the last place apart count as near.
_FEWEST_DROPPED = 4


class Rows(NamedTuple):
    """Lists as rows of equal width.

    filled: (rows, width) the cells that hold an element. slot: the slot of each filled cell, row by row; None if all
    slots are used in order.
    """

    slot: IntArray | None
    filled: BoolArray


class Lists(NamedTuple):
    """A block of adjacent lists of one level: list j has `counts[j]` slots from `starts[j]` on.

    first: index of list 0 in the level. begin: index of slot 0 in the level. rows: the narrow lists. wide: begin and
    end of the other lists. Without rows and wide lists, all lists are sorted by one sort.
    """

    first: int
    begin: int
    starts: IntArray
    counts: IntArray
    size: int
    widest: int
    rows: tuple[Rows, ...]
    wide: tuple[tuple[int, int], ...]

    @property
    def in_level(self) -> slice:
        """The indices of these lists in the level."""
        return slice(self.first, self.first + len(self.counts))


def arrange(counts: IntArray) -> tuple[Lists, ...]:
    """Group adjacent lists of these lengths into blocks that fit the processor's cache."""
    starts = np.cumsum(counts) - counts
    heads = np.flatnonzero(np.diff(starts // _BLOCK, prepend=-1)).tolist()
    return tuple(
        _block(first, starts[first:end], counts[first:end])
        for first, end in zip(heads, [*heads[1:], len(counts)], strict=True)
    )


def _block(first: int, starts: IntArray, counts: IntArray) -> Lists:
    begin, size, widest = int(starts[0]), int(counts.sum()), int(counts.max())
    starts = starts - begin
    rows: tuple[Rows, ...] = ()
    wide: tuple[tuple[int, int], ...] = ()
    if size >= _FEWEST_IN_ROWS:
        if widest <= _WIDEST_ROW and 2 * size >= widest * len(counts):
            rows = (Rows(None, np.arange(widest) < counts[:, np.newaxis]),)
        else:
            is_wide = counts > _WIDEST_ROW
            wide = tuple(zip(starts[is_wide].tolist(), (starts + counts)[is_wide].tolist(), strict=True))
            rows = tuple(_rows(starts[chosen], counts[chosen]) for chosen in _by_similar_length(counts))
    return Lists(first, begin, starts, counts, size, widest, rows, wide)


def _by_similar_length(counts: IntArray) -> list[IntArray]:
    """Group lists by length so that each fills at least half a row of the widest in its group."""
    narrow = np.flatnonzero((counts > 1) & (counts <= _WIDEST_ROW))
    size_class = np.frexp(counts[narrow] - 1.0)[1]  # 2 | 3–4 | 5–8 | …
    return [narrow[size_class == chosen] for chosen in np.unique(size_class)]


def _rows(starts: IntArray, counts: IntArray) -> Rows:
    columns = np.arange(int(counts.max()))
    filled = columns < counts[:, np.newaxis]
    return Rows((starts[:, np.newaxis] + columns)[filled], filled)


def sort_lists(lists: Lists, key: IntArray) -> None:
    """Sort `key` (size,), ≥ 0, ascending within each list, in place."""
    if lists.widest == 1:
        return
    if not lists.rows and not lists.wide:
        number = np.repeat(np.arange(len(lists.counts)), lists.counts)
        key[:] = key[np.lexsort((key, number))]
        return
    for begin, end in lists.wide:
        key[begin:end].sort(kind="stable")
    for slot, filled in lists.rows:
        rows = np.full(filled.shape, np.iinfo(np.int64).max)
        rows[filled] = key if slot is None else key[slot]
        rows.sort(axis=1)
        if slot is None:
            np.compress(filled.ravel(), rows.ravel(), out=key)
        else:
            key[slot] = rows[filled]


@dataclass(frozen=True, eq=False)
class WalkTree:
    """The tree that is walked: the parent of an entry is the entry in whose list it is compared.

    It differs from the share tree where entries have `parent` shares, because their children move up.
    entry: (n,) index in the share tree of each entry. is_unchanged: the walk tree is the share tree. is_ranked: (n,)
    the entries that get a position. n_ranked_below: (n,) number of ranked entries in the subtree, the entry included.
    """

    tree: FairshareTree
    entry: IntArray
    is_unchanged: bool
    is_ranked: BoolArray
    n_ranked_below: IntArray

    @cached_property
    def index_of_entry(self) -> IntArray:
        """(n,) index in the walk tree of each entry of the share tree."""
        index = np.empty(len(self.entry), dtype=np.int64)
        index[self.entry] = np.arange(len(self.entry))
        return index

    def entries_in_list_order(self, number: int) -> IntArray:
        """The entries of level `number` + 1, list by list, in the order in which siblings are listed."""
        level, in_order = self.tree.levels[number], self.tree.listed if self.is_unchanged else None
        return np.arange(level.lo, level.hi) if in_order is None else in_order[number]

    @cached_property
    def n_ranked(self) -> int:
        return int(self.n_ranked_below[0])

    @cached_property
    def lists(self) -> tuple[tuple[Lists, ...], ...]:
        """The lists of levels 1, 2, …, in blocks."""
        return tuple(arrange(level.counts) for level in self.tree.levels)

    @cached_property
    def is_level_ranked(self) -> tuple[bool | None, ...]:
        """For levels 1, 2, …: True if all entries are ranked, False if none are, None if only some are."""
        is_level_ranked: list[bool | None] = []
        for level in self.tree.levels:
            ranked = int(np.count_nonzero(self.is_ranked[level.lo : level.hi]))
            is_level_ranked.append({0: False, level.hi - level.lo: True}.get(ranked))
        return tuple(is_level_ranked)


def build_walk_tree(tree: FairshareTree, list_owner: IntArray, is_ranked: BoolArray) -> WalkTree:
    """Build the walk tree in which each entry is in the list of `list_owner` (n,), −1 for the root.

    A list that has entries of several parents is in depth-first order of the share tree.
    """
    if not tree.inherits.any():
        walked, entry, is_unchanged = tree, np.arange(tree.n_entries), True
    else:
        rows = np.argsort(depth_first_position(tree), kind="stable")
        row_of = np.empty(tree.n_entries, dtype=np.int64)
        row_of[rows] = np.arange(tree.n_entries)
        parent_row = np.where(list_owner[rows] >= 0, row_of[list_owner[rows]], -1)
        walked, order = FairshareTree.from_columns(parent_row, np.ones(tree.n_entries))
        entry, is_unchanged = rows[order], False
    ranked = is_ranked[entry]
    n_ranked_below = ranked.astype(np.int64)
    for level in reversed(walked.levels):
        n_ranked_below[level.parents] += np.add.reduceat(n_ranked_below[level.lo : level.hi], level.starts)
    return WalkTree(walked, entry, is_unchanged, ranked, n_ranked_below)


def depth_first_position(tree: FairshareTree) -> IntArray:
    """Return each entry's index in depth-first order, (n,): parents before children, siblings in list order."""
    size = np.ones(tree.n_entries, dtype=np.int64)
    for level in reversed(tree.levels):
        size[level.parents] += np.add.reduceat(size[level.lo : level.hi], level.starts)
    position = np.zeros(tree.n_entries, dtype=np.int64)
    for number, level in enumerate(tree.levels):
        here = slice(level.lo, level.hi) if tree.listed is None else tree.listed[number]
        position[here] = running_position(level, size[here], position[level.parents] + 1)
    return position


def running_position(lists: Lists | Level, sizes: IntArray, first: IntArray) -> IntArray:
    """Return the position of each slot: `first` of its list plus the sizes of the slots before it in the list."""
    before: IntArray = np.cumsum(sizes) - sizes
    before += np.repeat(first - before[lists.starts], lists.counts)
    return before


class Slots(NamedTuple):
    """The entries of a block of lists. entry: of each slot. is_late: entries that follow others of equal value."""

    lists: Lists
    entry: IntArray
    is_late: BoolArray | None


class ExactOrder(Protocol):
    """The exact comparison of an algorithm; `value` (n,), ≥ 0, approximates it except for the last bits."""

    @property
    def value(self) -> FloatArray: ...

    def resolve(self, slots: Slots, order: IntArray, near: BoolArray) -> BoolArray:
        """Correct `order` in place where values are `near` the one before; return where a slot ties with that one."""


@dataclass(frozen=True)
class TieRules:
    """How a scheduler walks tied entries.

    merges_lists: the lists of adjacent tied entries that aren't ranked are merged into one list.
    passes_ties_down: an entry that ties with the one before gets the last assigned position; an unranked entry passes
    this on to the first entry of its own list.
    """

    merges_lists: bool
    passes_ties_down: bool


def sort_slots(slots: Slots, value: FloatArray) -> tuple[IntArray, BoolArray]:
    """Sort the slots of each list by descending value, then late ones last, then in list order.

    Returns (order, near); near: the value is near that of the slot before in the same list. Value, lateness and
    position in the list are packed into one integer key, which replaces the last bits of the value.
    """
    lists = slots.lists
    position_bits = max(_FEWEST_DROPPED, (lists.widest - 1).bit_length())
    dropped = position_bits + (slots.is_late is not None)
    start = np.repeat(lists.starts, lists.counts)
    key = _INFINITE - value[slots.entry].view(np.int64)
    key >>= dropped
    key <<= dropped
    key += np.arange(lists.size)
    key -= start
    if slots.is_late is not None:
        key += slots.is_late.astype(np.int64) << position_bits
    sort_lists(lists, key)
    order = key & ((1 << position_bits) - 1)
    order += start
    key >>= dropped
    near = np.zeros(lists.size, dtype=np.bool_)
    np.less_equal(np.diff(key), 1, out=near[1:])
    near[lists.starts] = False
    return order, near


class _Walk:
    """Progress of a walk, arrays (n,) of the walk tree.

    position: number of ranked entries before this one, or before the first ranked entry below it. is_tied: ties with
    the entry at the last position. block: entries of one block have their lists merged.
    """

    def __init__(self, tree: WalkTree) -> None:
        n = tree.tree.n_entries
        self.tree = tree
        self.position = np.zeros(n, dtype=np.int64)
        self.is_tied = np.zeros(n, dtype=np.bool_)
        self.block = np.zeros(n, dtype=np.int64)

    def run(self, exact: ExactOrder, rules: TieRules) -> None:
        """Walk the levels top down, each in blocks of lists."""
        columns = self.tree.tree.levels, self.tree.lists, self.tree.is_level_ranked
        for number, (level, blocks, is_level_ranked) in enumerate(zip(*columns, strict=True)):
            parents, entry = level.parents, self.tree.entries_in_list_order(number)
            if rules.merges_lists and len(parents) > 1:
                by_block = np.argsort(self.block[parents], kind="stable")
                heads = np.flatnonzero(np.diff(self.block[parents[by_block]], prepend=-1))
                if len(heads) < len(parents):
                    blocks, merged = _merge(level, by_block, heads)
                    entry = entry[merged - level.lo]
                    parents = parents[by_block[heads]]
            first, is_first_tied = self.position[parents], self.is_tied[parents]
            for lists in blocks:
                here = entry[lists.begin : lists.begin + lists.size]
                late = None if is_level_ranked is not None else ~self.tree.is_ranked[here]
                order, near = sort_slots(Slots(lists, here, late), exact.value)
                same = exact.resolve(Slots(lists, here, late), order, near)
                late = np.full(lists.size, not is_level_ranked) if late is None else late[order]
                ordered = _Ordered(lists, here[order], same, late)
                self._assign_positions(ordered, first[lists.in_level], is_first_tied[lists.in_level], rules)

    def _assign_positions(self, ordered: _Ordered, first: IntArray, is_first_tied: BoolArray, rules: TieRules) -> None:
        """Set positions and ties of some sorted lists; first, is_first_tied: those of each list's first entry."""
        lists, entry, same, late = ordered
        position = running_position(lists, self.tree.n_ranked_below[entry], first)
        if rules.passes_ties_down:
            tied = same.copy()
            tied[lists.starts] = is_first_tied
        else:
            tied = same & ~late
            tied[1:] &= ~late[:-1]
        if rules.merges_lists:
            continues = same & late
            continues[1:] &= late[:-1]
            if continues.any():
                head = np.maximum.accumulate(np.where(continues, 0, np.arange(lists.size)))
                position, tied = position[head], tied[head]
                self.block[entry] = entry[head]
            else:
                self.block[entry] = entry
        self.position[entry], self.is_tied[entry] = position, tied


class _Ordered(NamedTuple):
    """Sorted lists: entry of each slot, and whether it ties with the slot before (same) and is late."""

    lists: Lists
    entry: IntArray
    same: BoolArray
    late: BoolArray


def count_ahead(tree: WalkTree, exact: ExactOrder, rules: TieRules) -> IntArray:
    """Number of ranked entries strictly ahead of each ranked entry, (n,) of the walk tree; undefined for others.

    An entry that ties with the one before gets the position of the last entry that doesn't.
    """
    walk = _Walk(tree)
    walk.run(exact, rules)
    position = walk.position
    tied = np.flatnonzero(walk.is_tied & tree.is_ranked)
    if len(tied):
        own = position[tied]
        last = np.arange(tree.n_ranked)
        last[own] = 0
        np.maximum.accumulate(last, out=last)
        position[tied] = last[own]
    return position


def _merge(level: Level, by_block: IntArray, heads: IntArray) -> tuple[tuple[Lists, ...], IntArray]:
    """Merge lists of a level: those at by_block[heads[j]:heads[j + 1]] form list j; return the lists and entries."""
    counts = level.counts[by_block]
    begin = np.cumsum(counts) - counts
    slot = np.arange(level.lo, level.hi) + np.repeat(level.starts[by_block] - begin, counts)
    return arrange(np.add.reduceat(counts, heads)), slot
