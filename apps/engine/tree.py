"""The share tree as read-only parallel arrays in breadth-first order: siblings are adjacent, `parent[i] < i`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import CHUNK, BoolArray, FloatArray, IntArray
from apps.engine.errors import BadTree

MAX_DEPTH = 64


class Level(NamedTuple):
    """One level of the tree: entries `lo:hi` in sibling groups.

    parents: the entries one level up that have children. Group j has `counts[j]` entries from `lo + starts[j]` on.
    grid: (groups, width) the filled cells if groups are laid out as rows of equal width; None if groups are few, long
    or of very different length.
    """

    lo: int
    hi: int
    parents: IntArray
    starts: IntArray
    counts: IntArray
    grid: BoolArray | None

    def chunks(self) -> Iterator[tuple[slice, slice]]:
        """Slices of groups, and of their entries from `lo` on, that fit the processor's cache."""
        if self.hi - self.lo <= CHUNK:
            yield slice(None), slice(None)
            return
        step = max(1, 2 * CHUNK * len(self.counts) // (self.hi - self.lo))
        for first in range(0, len(self.counts), step):
            last = min(first + step, len(self.counts)) - 1
            yield slice(first, last + 1), slice(int(self.starts[first]), int(self.starts[last] + self.counts[last]))


# Rows up to this width are sorted by sorting networks, several times faster than one long sort.
_WIDEST_GRID = 256
_FEWEST_IN_GRID = 10_000


def _grid(counts: IntArray) -> BoolArray | None:
    size = int(counts.sum())
    if size < _FEWEST_IN_GRID:
        return None
    width = int(counts.max())
    if width > _WIDEST_GRID or 2 * size < width * len(counts):
        return None
    filled: BoolArray = np.arange(width) < counts[:, np.newaxis]
    return filled


@dataclass(frozen=True, eq=False)
class FairshareTree:
    """A policy as arrays over n entries, entry 0 the root; all are read-only.

    parent: int32 (n,), −1 for the root. first_child, child_count: int32 (n,). level_offsets: int64 (levels + 1,).
    shares: float64 (n,), ≥ 0, 0 where `inherits`. inherits: the shares are *inherit*. is_group: declared with children,
    even none. is_reserve: share deliberately unallocated. is_user: kind `user` (Slurm ranks these alone). seniority:
    returns (n,) sort keys of the order in which siblings are listed, and is called only by algorithms that depend on
    it; None if siblings are listed in array order.
    """

    parent: npt.NDArray[np.int32]
    first_child: npt.NDArray[np.int32]
    child_count: npt.NDArray[np.int32]
    level_offsets: IntArray
    shares: FloatArray
    inherits: BoolArray
    is_group: BoolArray
    is_reserve: BoolArray
    is_user: BoolArray
    names: tuple[str, ...] | None = None
    seniority: Callable[[], IntArray] | None = None

    def __post_init__(self) -> None:
        for name in (
            "parent",
            "first_child",
            "child_count",
            "level_offsets",
            "shares",
            "inherits",
            "is_group",
            "is_reserve",
            "is_user",
        ):
            getattr(self, name).flags.writeable = False

    @property
    def n_entries(self) -> int:
        return len(self.parent)

    @property
    def depth(self) -> int:
        """Levels below the root."""
        return len(self.level_offsets) - 2

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """Levels 1, 2, … top down, without the root, which has no siblings."""
        levels = []
        for above in range(self.depth):
            first, lo, hi = (int(offset) for offset in self.level_offsets[above : above + 3])
            parents = first + np.flatnonzero(self.child_count[first:lo])
            starts = self.first_child[parents].astype(np.int64) - lo
            counts = self.child_count[parents].astype(np.int64)
            levels.append(Level(lo, hi, parents, starts, counts, _grid(counts)))
        return tuple(levels)

    @cached_property
    def listed(self) -> tuple[IntArray, ...] | None:
        """For levels 1, 2, …: the entries in the order in which siblings are listed, group by group.

        None if that is the array order.
        """
        if self.seniority is None:
            return None
        rank = self.seniority()
        orders = []
        for level in self.levels:
            group = np.repeat(np.arange(len(level.counts)), level.counts)
            orders.append(level.lo + np.lexsort((rank[level.lo : level.hi], group)))
        if all((np.diff(entries) > 0).all() for entries in orders):
            return None
        return tuple(orders)

    def with_shares(self, shares: npt.ArrayLike) -> FairshareTree:
        """The tree with these shares, (n,)."""
        changed, _ = FairshareTree.from_columns(
            self.parent,
            shares,
            inherits=self.inherits,
            is_group=self.is_group,
            is_reserve=self.is_reserve,
            is_user=self.is_user,
            names=self.names,
            seniority=self.seniority,
        )
        return changed

    @cached_property
    def is_ranked(self) -> BoolArray:
        """(n,) ranked leaves: entries that are neither groups nor reserves."""
        ranked: BoolArray = ~self.is_group & ~self.is_reserve
        return ranked

    @cached_property
    def competition(self) -> Competition:
        """The tree of the competing entries, without those that inherit shares; computed once for a tree."""
        return dissolve(self)

    def path(self, entry: int) -> str:
        """`/physics/alice`, the root `/`; needs names."""
        if self.names is None:
            return f"entry {entry}"
        parts = []
        while entry > 0:
            parts.append(self.names[entry])
            entry = int(self.parent[entry])
        return "/" + "/".join(reversed(parts))

    @classmethod
    def from_columns(
        cls,
        parent_index: npt.ArrayLike,
        shares: npt.ArrayLike,
        *,
        inherits: npt.ArrayLike | None = None,
        is_group: npt.ArrayLike | None = None,
        is_reserve: npt.ArrayLike | None = None,
        is_user: npt.ArrayLike | None = None,
        names: Sequence[str] | None = None,
        seniority: Callable[[], IntArray] | None = None,
    ) -> tuple[FairshareTree, IntArray]:
        """Build from rows in any order; return the tree and `order`: tree entry i was row `order[i]`.

        parent_index: row of each row's parent, −1 for the one root. shares: ≥ 0; NaN means *inherit*, unless a mask
        `inherits` is given (shares are then ignored there). The root is a group and its shares are ignored. Rows with
        children are groups, and rows in the mask `is_group`. Siblings keep the order of their rows. seniority: sort
        keys of the rows. Raises BadTree, with `row`.
        """
        parents = np.ascontiguousarray(parent_index, dtype=np.int64)
        weight = np.array(shares, dtype=np.float64)
        n = len(parents)
        inherit = np.isnan(weight) if inherits is None else _mask(inherits, n)
        order, offsets, first_child, child_count = _breadth_first(parents)
        position = np.empty(n, dtype=np.int64)
        position[order] = np.arange(n)
        parent = position[np.maximum(parents[order], 0)]
        parent[0] = -1
        inherit = inherit[order]
        inherit[0] = False
        weight = np.where(inherit, 0.0, weight[order])
        weight[0] = 1.0
        has_children = child_count > 0
        reserve = _mask(is_reserve, n)[order]
        group = has_children | _mask(is_group, n)[order]
        group[0] = True
        _check_shares(weight, order)
        _check_reserves(reserve, has_children, order)
        tree = cls(
            parent=parent.astype(np.int32),
            first_child=first_child.astype(np.int32),
            child_count=child_count.astype(np.int32),
            level_offsets=offsets,
            shares=weight + 0.0,  # −0 becomes 0
            inherits=inherit,
            is_group=group,
            is_reserve=reserve,
            is_user=_mask(is_user, n)[order],
            names=None if names is None else tuple(names[row] for row in order.tolist()),
            seniority=None if seniority is None else lambda: seniority()[order],
        )
        return tree, order


class Competition(NamedTuple):
    """The competing tree: the entries with shares, each below its nearest ancestor with shares.

    tree: the root and all entries that don't inherit. entry: int64 (m,), index of each in the original tree. seat:
    int64 (n,), for each original entry the competing entry whose vector it has: itself, or for an entry that inherits
    its nearest competing ancestor. is_whole: no entry inherits, so both trees are the same.
    """

    tree: FairshareTree
    entry: IntArray
    seat: IntArray
    is_whole: bool


def dissolve(tree: FairshareTree) -> Competition:
    """Remove entries that inherit: their children move one level up; leaves that inherit get their parent's vector.

    Source: the rule "*inherit* shares" under `aequus` and `gridwide`. The usage of removed entries stays in the totals
    of the remaining ancestors, because totals are summed in the original tree.
    """
    n = tree.n_entries
    if not tree.inherits.any():
        own = np.arange(n)
        return Competition(tree, own, own, is_whole=True)
    competing = ~tree.inherits
    seat_entry = np.where(competing, np.arange(n), -1)
    for level in tree.levels:
        here = slice(level.lo, level.hi)
        above = seat_entry[tree.parent[here]]
        seat_entry[here] = np.where(competing[here], seat_entry[here], above)
    rows = np.flatnonzero(competing)
    row_of_entry = np.full(n, -1, dtype=np.int64)
    row_of_entry[rows] = np.arange(len(rows))
    parent_row = np.full(len(rows), -1, dtype=np.int64)
    parent_row[1:] = row_of_entry[seat_entry[tree.parent[rows[1:]]]]
    contest, order = FairshareTree.from_columns(
        parent_row,
        tree.shares[rows],
        is_group=tree.is_group[rows],
        is_reserve=tree.is_reserve[rows],
        is_user=tree.is_user[rows],
    )
    entry = rows[order]
    index = np.full(n, -1, dtype=np.int64)
    index[entry] = np.arange(len(entry))
    return Competition(contest, entry, index[seat_entry], is_whole=False)


def _mask(values: npt.ArrayLike | None, n: int) -> BoolArray:
    return np.zeros(n, dtype=np.bool_) if values is None else np.array(values, dtype=np.bool_)


def _breadth_first(parents: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Order rows level by level; return (order, level offsets, first child, child count), the latter two per entry."""
    n = len(parents)
    if _is_breadth_first(parents):
        return _measure_levels(parents)
    roots = np.flatnonzero(parents < 0)
    if len(roots) != 1:
        raise BadTree(f"a tree has one root, this has {len(roots)}", row=int(roots[1]) if len(roots) > 1 else None)
    if n and int(parents.max()) >= n:
        raise BadTree("the parent isn't among the rows", row=int(np.argmax(parents)))
    by_parent = np.argsort(parents, kind="stable")[1:]  # the root's −1 sorts first
    count_of_row = np.bincount(parents[by_parent], minlength=n)
    start_of_row = np.cumsum(count_of_row) - count_of_row
    levels = [roots]
    while True:
        counts = count_of_row[levels[-1]]
        total = int(counts.sum())
        if total == 0:
            break
        if len(levels) > MAX_DEPTH:
            row = int(levels[-1][np.flatnonzero(counts)[0]])
            raise BadTree(f"has children at depth {MAX_DEPTH + 1}; at most {MAX_DEPTH} levels are allowed", row=row)
        within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        levels.append(by_parent[np.repeat(start_of_row[levels[-1]], counts) + within])
    order = np.concatenate(levels)
    if len(order) < n:
        reached = np.zeros(n, dtype=np.bool_)
        reached[order] = True
        raise BadTree("is part of a cycle: its ancestors never reach the root", row=int(np.argmin(reached)))
    child_count = count_of_row[order]
    first_child = 1 + np.cumsum(child_count) - child_count
    offsets = np.cumsum([0, *(len(level) for level in levels)])
    return order, offsets, first_child, child_count


def _is_breadth_first(parents: IntArray) -> bool:
    """Whether rows are in breadth-first order: the root, then the children of each row in the order of the rows."""
    if len(parents) == 0 or parents[0] >= 0 or (len(parents) > 1 and parents[1] != 0):
        return False
    return bool((parents[1:] >= parents[:-1]).all() and (parents < np.arange(len(parents))).all())


def _measure_levels(parents: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """The result of `_breadth_first` for rows that already are in breadth-first order."""
    child_count = np.bincount(parents[1:], minlength=len(parents))
    end_of_children = 1 + np.cumsum(child_count)
    offsets = [0, 1]
    while (end := int(end_of_children[offsets[-1] - 1])) > offsets[-1]:
        if len(offsets) - 2 == MAX_DEPTH:
            row = offsets[-2] + int(np.flatnonzero(child_count[offsets[-2] : offsets[-1]])[0])
            raise BadTree(f"has children at depth {MAX_DEPTH + 1}; at most {MAX_DEPTH} levels are allowed", row=row)
        offsets.append(end)
    return np.arange(len(parents)), np.array(offsets), end_of_children - child_count, child_count


def _check_shares(shares: FloatArray, order: IntArray) -> None:
    bad = ~((shares >= 0) & np.isfinite(shares))
    if bad.any():
        i = int(np.argmax(bad))
        raise BadTree(f"shares are {shares[i]!r}; a finite number ≥ 0 or inherit is allowed", row=int(order[i]))


def _check_reserves(reserve: BoolArray, has_children: BoolArray, order: IntArray) -> None:
    if reserve[0]:
        raise BadTree("the root can't be a reserve", row=int(order[0]))
    bad = reserve & has_children
    if bad.any():
        raise BadTree("a reserve has no children", row=int(order[int(np.argmax(bad))]))
