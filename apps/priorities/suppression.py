"""Which sums a reader may see without learning a single person's usage.

A reader of sums only (VIEW_AGGREGATE) may see the sum of a group if at least FAIRSHARE_SMALLEST_GROUP
members below it were active and none of them used more than four fifths of it. This isn't sufficient: a reader who
sees a group and all its children but one can derive the last child. From a set of shown entries a reader can derive
exactly their *remainders*, a remainder being a shown entry minus its shown children. For sums are shown from the root
downwards without gaps: every shown number is a sum of remainders, and every remainder is a difference of shown
numbers. So the rule is: **every remainder must satisfy the same condition as a shown group, or be empty.** Where one
doesn't, the smallest shown siblings are hidden until it does. Unions of safe remainders are safe.

Entries that a reader sees in full anyway (the path of their own accounts, entries by name) are considered known to
the reader and protect no one: only the remaining usage is tested. So each member can derive the usage of the others
in their group; the documentation says so. An entry's actual share is its usage over that of all its siblings: a
reader of an entry can derive the usage of its parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apps.engine.tree import Level
from apps.policies.tree.columns import Mask, TreeColumns

SMALLEST_GROUP = 5
LARGEST_PART = 0.8
F8 = npt.NDArray[np.float64]


def is_large_enough(n_active: npt.ArrayLike, used: npt.ArrayLike, largest: npt.ArrayLike, *, smallest: int) -> Mask:
    """The rule of five for one sum or many: enough active members, and none with more than 80 % of it."""
    is_safe: Mask = (np.asarray(n_active) >= smallest) & (np.asarray(largest) <= LARGEST_PART * np.asarray(used))
    return is_safe


@dataclass(frozen=True, eq=False)
class Amounts:
    """Statistics of the members at and below each entry; arrays (rows, entries).

    Each row is a number that a reader could derive for every entry: its usage, or the usage added since an earlier day.
    own: of the entry itself. has_people_here: the entry can stand for a person; has_people: it or one below can.
    """

    n_active: F8
    used: F8
    largest: F8
    own: F8
    has_people: Mask
    has_people_here: Mask

    @classmethod
    def of(cls, tree: TreeColumns, own: F8, is_member: Mask) -> Amounts:
        """Sum up from own usage (rows, entries), without entries below. is_member: entries that stand for a person."""
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
    """Entries that are a leaf other than a reserve, or have one below them."""
    members: Mask = ~tree.is_reserve & (tree.n_children == 0) & (np.arange(len(tree)) > 0)
    return with_ancestors(tree.engine_tree().levels, members)


def shown_entries(
    tree: TreeColumns, amounts: Amounts, *, seen: Mask, outright: Mask, smallest: int = SMALLEST_GROUP
) -> Mask:
    """Entries whose numbers may be shown, (n,). seen: entries visible to the reader; outright: shown in any case.

    Deterministic, in time linear in the number of entries.
    """
    levels = tree.engine_tree().levels
    outright, wanted = with_ancestors(levels, outright), with_ancestors(levels, seen)
    safe = is_large_enough(amounts.n_active, amounts.used, amounts.largest, smallest=smallest).all(axis=0)
    wanted &= safe & ~outright
    shown = outright.copy()
    shown[0] |= wanted[0]
    for level in levels:
        _show_children(level, amounts, shown, wanted, smallest)
    return shown


def with_ancestors(levels: Sequence[Level], mask: Mask) -> Mask:
    """The marked entries and all their ancestors."""
    marked = mask.copy()
    for level in reversed(levels):
        marked[level.parents] |= np.logical_or.reduceat(marked[level.lo : level.hi], level.starts)
    return marked


def _show_children(level: Level, amounts: Amounts, shown: Mask, wanted: Mask, smallest: int) -> None:
    """Show as many children of shown entries as the rule allows."""
    here = slice(level.lo, level.hi)
    has_shown_parent = shown[level.parents] & np.logical_or.reduceat(wanted[here], level.starts)
    for at in np.flatnonzero(has_shown_parent).tolist():
        lo = level.lo + int(level.starts[at])
        children = np.arange(lo, lo + int(level.counts[at]))
        parent = int(level.parents[at])
        candidates = children[wanted[children]]
        others = children[~wanted[children] & ~shown[children]]
        shown[_safe_candidates(amounts, parent, others, candidates, smallest)] = True


def _safe_candidates(
    amounts: Amounts, parent: int, others: npt.NDArray[np.int64], candidates: npt.NDArray[np.int64], smallest: int
) -> npt.NDArray[np.int64]:
    """Candidates that may be shown: as few of the smallest are removed as make the remainder safe."""
    if not amounts.has_people_here[parent] and not amounts.has_people[others].any():
        return candidates
    own = amounts.own[:, parent]
    n_active = (own > 0) + amounts.n_active[:, others].sum(axis=1)
    used = own + amounts.used[:, others].sum(axis=1)
    largest = np.maximum(own, amounts.largest[:, others].max(axis=1, initial=0.0))
    order = np.lexsort((candidates, amounts.used[0, candidates]))
    for n_hidden in range(len(order) + 1):
        if n_hidden:
            candidate = int(candidates[order[n_hidden - 1]])
            n_active, used = n_active + amounts.n_active[:, candidate], used + amounts.used[:, candidate]
            largest = np.maximum(largest, amounts.largest[:, candidate])
        if is_large_enough(n_active, used, largest, smallest=smallest).all():
            return candidates[order[n_hidden:]]
    return candidates[:0]
