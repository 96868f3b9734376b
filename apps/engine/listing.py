"""Who stands in whose list when a share tree is walked best first, and sorting many lists at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from apps.engine.arrays import BoolArray, IntArray
from apps.engine.tree import FairshareTree, Grid, Level

# Lists up to this width are sorted as rows of equal width, by sorting networks; wider ones one at a time.
_WIDEST_ROW = 256
_FEWEST_IN_ROWS = 4096


class Lists(NamedTuple):
    """Lists side by side: list j is slots `starts[j]` onwards, `counts[j]` long.

    rows: the narrow ones as rows, `covers` when one block of rows has all of them in order. wide: begin and end of the
    others. Without either, all are sorted in one go.
    """

    starts: IntArray
    counts: IntArray
    size: int
    widest: int
    rows: tuple[Grid, ...]
    covers: bool
    wide: tuple[tuple[int, int], ...]


def arrange(starts: IntArray, counts: IntArray, grid: Grid | None = None) -> Lists:
    """Lists ready to be sorted; grid: all of them as rows, where somebody has that already."""
    size, widest = int(counts.sum()), int(counts.max())
    if grid is not None:
        return Lists(starts, counts, size, widest, (grid,), True, ())
    if size < _FEWEST_IN_ROWS:
        return Lists(starts, counts, size, widest, (), False, ())
    is_wide = counts > _WIDEST_ROW
    wide = tuple(zip(starts[is_wide].tolist(), (starts + counts)[is_wide].tolist(), strict=True))
    narrow = np.flatnonzero(~is_wide & (counts > 1))
    rows = tuple(_rows(starts[chosen], counts[chosen], size) for chosen in _alike(narrow, counts))
    return Lists(starts, counts, size, widest, rows, False, wide)


def _alike(narrow: IntArray, counts: IntArray) -> list[IntArray]:
    """Parts of `narrow` whose lists fill rows of the widest among them at least by half."""
    if len(narrow) == 0:
        return []
    widths = counts[narrow]
    if 2 * int(widths.sum()) >= int(widths.max()) * len(narrow):
        return [narrow]
    size_class = np.frexp(widths - 1.0)[1]  # 2 | 3–4 | 5–8 | …
    return [narrow[size_class == chosen] for chosen in np.unique(size_class)]


def _rows(starts: IntArray, counts: IntArray, size: int) -> Grid:
    columns = np.arange(int(counts.max()))
    filled = columns < counts[:, np.newaxis]
    return Grid(np.where(filled, starts[:, np.newaxis] + columns, size), filled)


def sort_lists(lists: Lists, key: IntArray) -> None:
    """Sort `key` (size,) ascending within each list, in place."""
    if not lists.rows and not lists.wide and lists.size < _FEWEST_IN_ROWS:
        number = np.repeat(np.arange(len(lists.counts)), lists.counts)
        key[:] = key[np.lexsort((key, number))]
        return
    for begin, end in lists.wide:
        key[begin:end].sort(kind="stable")
    if not lists.rows:
        return
    padded = np.append(key, np.iinfo(np.int64).max)
    for position, filled in lists.rows:
        rows = padded[position]
        rows.sort(axis=1)
        if lists.covers:
            np.compress(filled.ravel(), rows.ravel(), out=key)
        else:
            key[position[filled]] = rows[filled]


@dataclass(frozen=True, eq=False)
class Listing:
    """A tree of lists: everybody below the one whose list they stand in, siblings in the order of the list.

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

    @cached_property
    def n_ranked(self) -> int:
        return int(self.below[0])

    @cached_property
    def lists(self) -> tuple[Lists, ...]:
        """Those of levels 1, 2, …"""
        return tuple(arrange(level.starts, level.counts, level.grid) for level in self.tree.levels)

    @cached_property
    def mixed(self) -> tuple[bool, ...]:
        """Levels 1, 2, … at which some are ranked and some are not."""
        found = []
        for level in self.tree.levels:
            ranked = int(np.count_nonzero(self.is_ranked[level.lo : level.hi]))
            found.append(0 < ranked < level.hi - level.lo)
        return tuple(found)


def list_entries(tree: FairshareTree, above: IntArray, is_ranked: BoolArray) -> Listing:
    """The listing of a tree in which each entry stands in the list of `above` (n,), −1 for the root.

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
    """(n,) how many entries come before each when parents come before their children, and siblings in order."""
    size = np.ones(tree.n_entries, dtype=np.int64)
    for level in reversed(tree.levels):
        size[level.parents] += np.add.reduceat(size[level.lo : level.hi], level.starts)
    place = np.zeros(tree.n_entries, dtype=np.int64)
    for level in tree.levels:
        place[level.lo : level.hi] = running_place(level, size[level.lo : level.hi], place[level.parents] + 1)
    return place


def running_place(lists: Lists | Level, sizes: IntArray, first: IntArray) -> IntArray:
    """Place of each slot: `first` of its list and the sizes of those before it in the list."""
    before = np.cumsum(sizes)
    before -= sizes
    before += np.repeat(first - before[lists.starts], lists.counts)
    return before
