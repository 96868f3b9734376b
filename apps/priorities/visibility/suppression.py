"""Which numbers are visible without revealing one person's usage: the rule of five, also under subtraction.

A reader of a group's sum only (VIEW_AGGREGATE) sees the sum where at least FAIRSHARE_SMALLEST_GROUP members below were
active and none of them used more than four fifths of it. That alone isn't enough: who sees a group and all its parts
but one can derive the last part. What such a reader learns from a set of shown entries is exactly their *remainders*, a
remainder being a shown entry minus its shown children: sums are shown downwards from the root without gaps, so every
shown number is a sum of remainders and every remainder a difference of shown numbers. Hence the one rule here: **every
remainder is as large a group as a shown one must be, or is empty.** Where it isn't, the smallest shown siblings are
hidden as well until it is. Unions of safe remainders are safe.

What readers see in any case (their own path to the root, entries by name) counts as known and protects no one: only
the rest counts. Others' usage is then the rest of a group's sum; so every member can see their own group's usage, and
the documentation says so.

An entry's actual share is its usage over its siblings' together: a reader of an entry sees its parent, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apps.engine.tree import Level
from apps.policies.tree.columns import TreeColumns

Mask = npt.NDArray[np.bool_]
F8 = npt.NDArray[np.float64]

SMALLEST_GROUP = 5
LARGEST_PART = 0.8


def is_large_enough(n_active: npt.ArrayLike, used: npt.ArrayLike, largest: npt.ArrayLike, *, smallest: int) -> Mask:
    """The rule of five for one sum or many: enough active members, and none with more than 80 % of it."""
    told: Mask = (np.asarray(n_active) >= smallest) & (np.asarray(largest) <= LARGEST_PART * np.asarray(used))
    return told


@dataclass(frozen=True, eq=False)
class Amounts:
    """Members' parts of the numbers to be shown, and sums upwards; arrays (rows, entries).

    A row is one number that a reader could know of every entry: its usage, or usage added since a day that was shown
    before. own: of the entry itself, 0 for nothing. has_people: a person's usage could be below.
    """

    n_active: F8
    used: F8
    largest: F8
    own: F8
    has_people: Mask
    has_people_here: Mask

    @classmethod
    def of(cls, tree: TreeColumns, own: F8, is_member: Mask) -> Amounts:
        """own: (rows, entries), of each entry apart from what is below it. is_member: entries that represent people."""
        own = np.maximum(own, 0.0)
        n_active, used, largest = (own > 0).astype(np.float64), own.copy(), own.copy()
        here = is_member | (own > 0).any(axis=0)
        below = here.copy()
        for level in reversed(tree.engine_tree().levels):
            part = slice(level.lo, level.hi)
            for column, add in ((n_active, np.add), (used, np.add)):
                column[:, level.parents] += add.reduceat(column[:, part], level.starts, axis=1)
            largest[:, level.parents] = np.maximum(
                largest[:, level.parents], np.maximum.reduceat(largest[:, part], level.starts, axis=1)
            )
            below[level.parents] |= np.logical_or.reduceat(below[part], level.starts)
        return cls(n_active, used, largest, own, below, here)


def members_below(tree: TreeColumns) -> Mask:
    """Entries that are, or have below them, a leaf that isn't a reserve."""
    found: Mask = ~tree.is_reserve & (tree.n_children == 0) & (np.arange(len(tree)) > 0)
    return with_the_way(tree.engine_tree().levels, found)


def shown_entries(
    tree: TreeColumns, amounts: Amounts, *, seen: Mask, outright: Mask, smallest: int = SMALLEST_GROUP
) -> Mask:
    """Entries whose numbers may be shown, shape (n,). seen: those visible to the reader. outright: shown in any case.

    Deterministic; linear in the entries.
    """
    levels = tree.engine_tree().levels
    outright, wanted = with_the_way(levels, outright), with_the_way(levels, seen)
    safe = is_large_enough(amounts.n_active, amounts.used, amounts.largest, smallest=smallest).all(axis=0)
    wanted &= safe & ~outright
    told = outright.copy()
    told[0] |= wanted[0]
    for level in levels:
        _go_down(level, amounts, told, wanted, smallest)
    return told


def with_the_way(levels: Sequence[Level], mask: Mask) -> Mask:
    """And all that is above."""
    found = mask.copy()
    for level in reversed(levels):
        found[level.parents] |= np.logical_or.reduceat(found[level.lo : level.hi], level.starts)
    return found


def _go_down(level: Level, amounts: Amounts, told: Mask, wanted: Mask, smallest: int) -> None:
    """Show as many children of shown entries as the rule allows."""
    here = slice(level.lo, level.hi)
    asked = told[level.parents] & np.logical_or.reduceat(wanted[here], level.starts)
    for place in np.flatnonzero(asked).tolist():
        lo = level.lo + int(level.starts[place])
        children = np.arange(lo, lo + int(level.counts[place]))
        parent = int(level.parents[place])
        candidates = children[wanted[children]]
        others = children[~wanted[children] & ~told[children]]
        told[_leave_out(amounts, parent, others, candidates, smallest)] = True


def _leave_out(
    amounts: Amounts, parent: int, others: npt.NDArray[np.int64], candidates: npt.NDArray[np.int64], smallest: int
) -> npt.NDArray[np.int64]:
    """The candidates without the smallest, as few of these as make the remainder safe; all where it is empty."""
    if not amounts.has_people_here[parent] and not amounts.has_people[others].any():
        return candidates
    own = amounts.own[:, parent]
    n_active = (own > 0) + amounts.n_active[:, others].sum(axis=1)
    used = own + amounts.used[:, others].sum(axis=1)
    largest = np.maximum(own, amounts.largest[:, others].max(axis=1, initial=0.0))
    order = np.lexsort((candidates, amounts.used[0, candidates]))
    for left_out in range(len(order) + 1):
        if left_out:
            one = int(candidates[order[left_out - 1]])
            n_active, used = n_active + amounts.n_active[:, one], used + amounts.used[:, one]
            largest = np.maximum(largest, amounts.largest[:, one])
        if is_large_enough(n_active, used, largest, smallest=smallest).all():
            return candidates[order[left_out:]]
    return candidates[:0]
