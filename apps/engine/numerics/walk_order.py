"""Walking a share tree best first: lists sorted by value, ties marked, and each entry's position in the walk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.numerics.listing import Listing, Lists, arrange, running_place, sort_lists
from apps.engine.tree import Level

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
    the place given last, whoever that one is; an unranked entry passes it to the first in its own list.
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
