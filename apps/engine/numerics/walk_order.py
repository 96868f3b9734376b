"""Walking a share tree best first: lists sorted by value, ties marked, and each entry's position in the walk."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.tree import FairshareTree, Level

# --- Lists ------------------------------------------------------------------------------------------------------------
# Slots processed at once, if no list is longer, so that what is between stays in the processor's cache.
_BLOCK = 1 << 15
# Lists up to this width are sorted as rows of equal width, by sorting networks; wider ones one at a time.
_WIDEST_ROW = 256
_FEWEST_IN_ROWS = 2048


class Rows(NamedTuple):
    """Lists as rows of equal width. slot: of what is `filled`, (rows, width), row by row; None for all in order."""

    slot: IntArray | None
    filled: BoolArray


class Lists(NamedTuple):
    """Lists side by side: list j is slots `starts[j]` onwards, `counts[j]` long; `first` is the number of list 0.

    begin: of these slots among those of the level. rows: the narrow lists. wide: begin and end of the others. Without
    either, all are sorted in one go.
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
    def numbers(self) -> slice:
        """Which lists of the level these are."""
        return slice(self.first, self.first + len(self.counts))


def arrange(counts: IntArray) -> tuple[Lists, ...]:
    """Lists of these lengths, side by side, in blocks that are handy to sort."""
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
            rows = tuple(_rows(starts[chosen], counts[chosen]) for chosen in _alike(counts))
    return Lists(first, begin, starts, counts, size, widest, rows, wide)


def _alike(counts: IntArray) -> list[IntArray]:
    """Lists of similar length, which fill rows of the widest among them at least by half."""
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
class Listing:
    """A tree of lists: each entry below the one in whose list it is; `slots` has the order of each list.

    entry: (n,) the original entry of each. is_same: they are the original ones, in their order. is_ranked: (n,) who is
    given a place. below: (n,) how many of these are in each one's own list and all lists below, or the one itself.
    """

    tree: FairshareTree
    entry: IntArray
    is_same: bool
    is_ranked: BoolArray
    below: IntArray

    @cached_property
    def place(self) -> IntArray:
        """(n,) where each original entry is listed."""
        place = np.empty(len(self.entry), dtype=np.int64)
        place[self.entry] = np.arange(len(self.entry))
        return place

    def slots(self, number: int) -> IntArray:
        """The entry in each slot of the lists of level `number` + 1."""
        level, in_order = self.tree.levels[number], self.tree.listed if self.is_same else None
        return np.arange(level.lo, level.hi) if in_order is None else in_order[number]

    @cached_property
    def n_ranked(self) -> int:
        return int(self.below[0])

    @cached_property
    def lists(self) -> tuple[tuple[Lists, ...], ...]:
        """Those of levels 1, 2, …, in blocks."""
        return tuple(arrange(level.counts) for level in self.tree.levels)

    @cached_property
    def kinds(self) -> tuple[bool | None, ...]:
        """Levels 1, 2, …: whether all are ranked (True), or none (False), or some are and some are not (None)."""
        found: list[bool | None] = []
        for level in self.tree.levels:
            ranked = int(np.count_nonzero(self.is_ranked[level.lo : level.hi]))
            found.append({0: False, level.hi - level.lo: True}.get(ranked))
        return tuple(found)


def list_entries(tree: FairshareTree, above: IntArray, is_ranked: BoolArray) -> Listing:
    """The listing of a tree in which each entry is in the list of `above` (n,), −1 for the root.

    Where that isn't the parent, a list has its entries in depth-first order of the tree.
    """
    if not tree.inherits.any():
        listed, entry, is_same = tree, np.arange(tree.n_entries), True
    else:
        rows = np.argsort(depth_first_place(tree), kind="stable")
        row_of = np.empty(tree.n_entries, dtype=np.int64)
        row_of[rows] = np.arange(tree.n_entries)
        parent_row = np.where(above[rows] >= 0, row_of[above[rows]], -1)
        listed, order = FairshareTree.from_columns(parent_row, np.ones(tree.n_entries))
        entry, is_same = rows[order], False
    ranked = is_ranked[entry]
    below = ranked.astype(np.int64)
    for level in reversed(listed.levels):
        below[level.parents] += np.add.reduceat(below[level.lo : level.hi], level.starts)
    return Listing(listed, entry, is_same, ranked, below)


def depth_first_place(tree: FairshareTree) -> IntArray:
    """(n,) how many entries come before each when parents come before their children, and siblings as listed."""
    size = np.ones(tree.n_entries, dtype=np.int64)
    for level in reversed(tree.levels):
        size[level.parents] += np.add.reduceat(size[level.lo : level.hi], level.starts)
    place = np.zeros(tree.n_entries, dtype=np.int64)
    for number, level in enumerate(tree.levels):
        here = slice(level.lo, level.hi) if tree.listed is None else tree.listed[number]
        place[here] = running_place(level, size[here], place[level.parents] + 1)
    return place


def running_place(lists: Lists | Level, sizes: IntArray, first: IntArray) -> IntArray:
    """Place of each slot: `first` of its list, and the sizes of those before it in the list."""
    before: IntArray = np.cumsum(sizes) - sizes
    before += np.repeat(first - before[lists.starts], lists.counts)
    return before


# --- Walk -------------------------------------------------------------------------------------------------------------
# What represents infinity: doubles ≥ 0 order as their bits do.
_INFINITE = np.int64(0x7FF << 52)
# Bits that aren't sorted by, at least: values a few units in the last place apart come out as near.
_FEWEST_DROPPED = 4


class Slots(NamedTuple):
    """One level in the order of its lists. entry: of each slot. is_late: who comes after others of equal value."""

    lists: Lists
    entry: IntArray
    is_late: BoolArray | None


class Ruler(Protocol):
    """How values compare in the end; `value` (n,), ≥ 0, is what they are but for the last bits."""

    @property
    def value(self) -> FloatArray: ...

    def settle(self, slots: Slots, order: IntArray, near: BoolArray) -> BoolArray:
        """Put right the `order` of slots whose values are `near` the one before; return where they tie with it."""


@dataclass(frozen=True)
class Manners:
    """How a scheduler walks.

    merges: the lists of tied neighbours who aren't ranked become one. hands_down: who ties with the one before shares
    the last place given, to any entry; an unranked entry passes it to the first in its own list.
    """

    merges: bool
    hands_down: bool


def sort_slots(slots: Slots, value: FloatArray) -> tuple[IntArray, BoolArray]:
    """Slots by descending value within each list, then late ones last, then in order; and where a value is near the
    one before in its list.

    Sorts bits of the value, lateness and place in the list, packed in one number: the last bits of the value give way.
    """
    lists = slots.lists
    place_bits = max(_FEWEST_DROPPED, (lists.widest - 1).bit_length())
    dropped = place_bits + (slots.is_late is not None)
    start = np.repeat(lists.starts, lists.counts)
    key = _INFINITE - value[slots.entry].view(np.int64)
    key >>= dropped
    key <<= dropped
    key += np.arange(lists.size)
    key -= start
    if slots.is_late is not None:
        key += slots.is_late.astype(np.int64) << place_bits
    sort_lists(lists, key)
    order = key & ((1 << place_bits) - 1)
    order += start
    key >>= dropped
    near = np.zeros(lists.size, dtype=np.bool_)
    np.less_equal(np.diff(key), 1, out=near[1:])
    near[lists.starts] = False
    return order, near


class _Walk:
    """What is known so far of a walk, all (n,) of the listing.

    place: how many positions precede this one, or the first below it. is_tied: with the entry at the last
    position. block: the lists of entries of one block are one list.
    """

    def __init__(self, listing: Listing) -> None:
        n = listing.tree.n_entries
        self.listing = listing
        self.place = np.zeros(n, dtype=np.int64)
        self.is_tied = np.zeros(n, dtype=np.bool_)
        self.block = np.zeros(n, dtype=np.int64)

    def visit(self, ruler: Ruler, manners: Manners) -> None:
        """Levels top down, each in blocks of lists."""
        columns = self.listing.tree.levels, self.listing.lists, self.listing.kinds
        for number, (level, blocks, kind) in enumerate(zip(*columns, strict=True)):
            parents, entry = level.parents, self.listing.slots(number)
            if manners.merges and len(parents) > 1:
                by_block = np.argsort(self.block[parents], kind="stable")
                heads = np.flatnonzero(np.diff(self.block[parents[by_block]], prepend=-1))
                if len(heads) < len(parents):
                    blocks, merged = _merge(level, by_block, heads)
                    entry = entry[merged - level.lo]
                    parents = parents[by_block[heads]]
            first, handed = self.place[parents], self.is_tied[parents]
            for lists in blocks:
                here = entry[lists.begin : lists.begin + lists.size]
                late = None if kind is not None else ~self.listing.is_ranked[here]
                order, near = sort_slots(Slots(lists, here, late), ruler.value)
                same = ruler.settle(Slots(lists, here, late), order, near)
                late = np.full(lists.size, not kind) if late is None else late[order]
                self._seat(lists, here[order], same, late, first[lists.numbers], handed[lists.numbers], manners)

    def _seat(
        self,
        lists: Lists,
        entry: IntArray,
        same: BoolArray,
        late: BoolArray,
        first: IntArray,
        handed: BoolArray,
        manners: Manners,
    ) -> None:
        """Places and ties of some lists; entry, same, late: in the order of the walk."""
        place = running_place(lists, self.listing.below[entry], first)
        if manners.hands_down:
            tied = same.copy()
            tied[lists.starts] = handed
        else:
            tied = same & ~late
            tied[1:] &= ~late[:-1]
        if manners.merges:
            goes_on = same & late
            goes_on[1:] &= late[:-1]
            if goes_on.any():
                head = np.maximum.accumulate(np.where(goes_on, 0, np.arange(lists.size)))
                place, tied = place[head], tied[head]
                self.block[entry] = entry[head]
            else:
                self.block[entry] = entry
        self.place[entry], self.is_tied[entry] = place, tied


def count_ahead(listing: Listing, ruler: Ruler, manners: Manners) -> IntArray:
    """How many of those who are given a place are strictly ahead, (n,) of the listing; no matter what for others.

    Who ties with the one before has the place of the last one who doesn't.
    """
    walk = _Walk(listing)
    walk.visit(ruler, manners)
    place = walk.place
    tied = np.flatnonzero(walk.is_tied & listing.is_ranked)
    if len(tied):
        own = place[tied]
        last = np.arange(listing.n_ranked)
        last[own] = 0
        np.maximum.accumulate(last, out=last)
        place[tied] = last[own]
    return place


def _merge(level: Level, by_block: IntArray, heads: IntArray) -> tuple[tuple[Lists, ...], IntArray]:
    """Lists of a level put together, those at by_block[heads[j]:heads[j + 1]] to list j; and the entries in them."""
    counts = level.counts[by_block]
    begin = np.cumsum(counts) - counts
    slot = np.arange(level.lo, level.hi) + np.repeat(level.starts[by_block] - begin, counts)
    return arrange(np.add.reduceat(counts, heads)), slot
