"""Walking a share tree best first: lists sorted by value, ties told, and everybody's place in the walk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.listing import Listing, Lists, arrange, running_place, sort_lists

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

    merges: the lists of tied neighbours without a place become one. hands_down: the first of a list ties with whoever
    was given a place last, if the one it stands below tied with the one before. mixes: a place is shared with one
    without a place before it.
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


def count_ahead(listing: Listing, ruler: Ruler, manners: Manners) -> IntArray:
    """How many of those with a place are strictly ahead of each one with a place, (n,) of the listing; 0 for others.

    Level by level: who stands where in its list, how many are given a place before its list begins, and whether it
    ties; those who tie with the one before have the place of the last one who doesn't.
    """
    tree = listing.tree
    n = tree.n_entries
    place = np.zeros(n, dtype=np.int64)
    tied = np.zeros(n, dtype=np.bool_)
    block = np.zeros(n, dtype=np.int64)  # entries whose lists are one
    for level, lists, mixed in zip(tree.levels, listing.lists, listing.mixed, strict=True):
        blocks = block[level.parents]
        entry = np.arange(level.lo, level.hi)
        first, is_handed = place[level.parents], tied[level.parents]
        if manners.merges and len(blocks) > 1:
            by_block = np.argsort(blocks, kind="stable")
            heads = np.flatnonzero(np.diff(blocks[by_block], prepend=-1))
            if len(heads) < len(blocks):
                lists, entry = _merge(lists, entry, by_block, heads)
                first, is_handed = first[by_block[heads]], is_handed[by_block[heads]]
        is_late = ~listing.is_ranked[entry] if mixed else None
        slots = Slots(lists, entry, is_late)
        order, near = sort_slots(slots, ruler.value)
        same = ruler.settle(slots, order, near)
        entry = entry[order]
        late = ~listing.is_ranked[entry]
        if not manners.hands_down:
            before = np.roll(late, 1)
            ties = same & ~before
        else:
            ties = same.copy()
            ties[lists.starts] = is_handed
        places = running_place(lists, listing.below[entry], first)
        if manners.merges:
            goes_on = same & late
            goes_on[1:] &= late[:-1]
            head = np.maximum.accumulate(np.where(goes_on, 0, np.arange(lists.size)))
            block[entry] = head
            places, ties = places[head], ties[head]
        place[entry], tied[entry] = places, ties
    return _places_of_ties(listing, place, tied)


def _merge(lists: Lists, entry: IntArray, by_block: IntArray, heads: IntArray) -> tuple[Lists, IntArray]:
    """Lists put together: those at by_block[heads[j]:heads[j + 1]] become list j."""
    counts = lists.counts[by_block]
    begin = np.cumsum(counts) - counts
    slot = np.arange(lists.size) + np.repeat(lists.starts[by_block] - begin, counts)
    return arrange(begin[heads], np.add.reduceat(counts, heads)), entry[slot]


def _places_of_ties(listing: Listing, place: IntArray, tied: BoolArray) -> IntArray:
    """The place in the walk of the last one before who isn't tied, for those who are."""
    ranked = np.flatnonzero(listing.is_ranked)
    at = place[ranked]
    ties = tied[ranked]
    if ties.any():
        head = np.zeros(len(ranked), dtype=np.int64)
        head[at] = np.where(ties, 0, at)
        at = np.maximum.accumulate(head)[at]
    ahead = np.zeros(listing.tree.n_entries, dtype=np.int64)
    ahead[ranked] = at
    return ahead
