"""The rows of a tree in display order: opened, filtered and sorted among siblings, as one list of entries.

Everything is worked out in numpy, level by level: a tree of 100,000 entries is listed in some 50 ms, and one page reads
the entries of its window alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.priorities.selectors.rows import F8, PolicyView

I8 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
SORTS = ("name", "target", "deviation", "factor", "rank")
DEEPEST = 20


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Which rows of a tree are shown, and in which order.

    level: opened down to it, 1: the root alone is open; None: as deep as one page has room for, or only what
    `open_uids` says. sort: one of SORTS, `-` in front for descending; empty: the order of the policy.
    """

    level: int | None = None
    open_uids: Sequence[UUID] = ()
    shut_uids: Sequence[UUID] = ()
    query: str = ""
    off_target: bool = False
    sort: str = ""

    @property
    def is_filtered(self) -> bool:
        return bool(self.query.strip()) or self.off_target


@dataclass(frozen=True)
class Listing:
    """rows: entries in display order. level: what is open without `open_uids` and `shut_uids`. matches: what the
    filters let through, without the way to it; None without a filter.

    place, size: position of an entry in its set, and the size of the set, by entry. end: where its rows end, by entry.
    left_out: entries with more children than are listed → how many are left out.
    """

    rows: I8
    level: int
    matches: Mask | None
    is_open: Mask
    place: I8
    size: I8
    at: I8
    end: I8
    left_out: dict[int, int] = field(default_factory=dict)

    @property
    def n_matches(self) -> int:
        return 0 if self.matches is None else int(self.matches.sum())

    def after(self, view: PolicyView, uid: UUID | None) -> int:
        """Where the rows behind an entry begin; behind its nearest listed ancestor where it isn't listed itself."""
        i = None if uid is None else view.tree.index_of_uid(uid)
        if i is None or not view.visibility.may_see(i):
            return 0
        if self.at[i] >= 0:
            return int(self.at[i]) + 1
        for above in reversed(view.tree.ancestors(i)):
            if self.at[above] >= 0:
                return int(self.end[above])
        return 0


def list_rows(view: PolicyView, asked: Arrangement, *, most_children: int, room: int) -> Listing:
    """The rows that the actor may see. most_children: listed of one entry. room: rows that a fresh page opens."""
    tree, mask = view.tree, view.visibility.mask
    level = _level_of(view, asked, room)
    matches = _matches(view, asked, level)
    only = _with_way(view, matches)
    is_open = _open(view, asked, level, only)
    if only is not None:
        for i in _indices(view, asked.open_uids):  # opened by hand: everything below is shown
            only[tree.children(i)] = True
    key = sort_key(view, asked.sort)
    place, size = np.ones(len(tree), dtype=np.int64), np.ones(len(tree), dtype=np.int64)
    shown = np.zeros(len(tree), dtype=np.bool_)
    shown[0] = mask[0]
    left_out: dict[int, int] = {}
    levels = []
    for here in (np.arange(each.start, each.stop) for each in tree.subtree(0)[1:]):
        above = tree.parent[here]
        here = here[mask[here] & shown[above] & is_open[above]]
        if not len(here):
            break
        here = here[np.lexsort((here, key(here), tree.parent[here]))]
        place[here], size[here] = _counted(tree.parent[here])
        kept = here if only is None else here[only[here]]
        nth, of = _counted(tree.parent[kept])
        ends = kept[nth == most_children + 1]
        left_out |= dict(
            zip(tree.parent[ends].tolist(), (of[nth == most_children + 1] - most_children).tolist(), strict=True)
        )
        kept = kept[nth <= most_children]
        shown[kept] = True
        levels.append(kept)
    at, end = _positions(tree.parent, shown, levels)
    rows = np.flatnonzero(shown)
    return Listing(rows[np.argsort(at[rows])], level, matches, is_open, place, size, at, end, left_out)


def parts_of_children(view: PolicyView, parents: Iterable[int], *, of_total: bool) -> dict[int, tuple[F8, F8]]:
    """(actual, target) of the visible children of each entry, as far as the actor may see them, else 0."""
    target, actual = view.target[int(of_total)], np.zeros(len(view.tree))
    if view.snapshot is not None:
        numbers = view.snapshot.actual_global if of_total else view.snapshot.values.actual
        known = (view.snapshot_index >= 0) & view.competes
        actual = np.where(known, numbers[np.maximum(view.snapshot_index, 0)], 0.0)
    found = {}
    for parent in parents:
        children = view.tree.children(parent)
        here = np.arange(children.start, children.stop)
        here = here[view.visibility.mask[here] & view.competes[here]]
        found[parent] = (actual[here], target[here])
    return found


def sort_children(view: PolicyView, parent: int, asked: Arrangement) -> tuple[list[tuple[int, int]], int]:
    """Children that the filter lets through as (entry, position in their set), and the size of the set."""
    children = np.array(view.visible_children(parent), dtype=np.int64)
    only = _with_way(view, _matches(view, asked, _level_of(view, asked, room=0)))
    if len(children):
        children = children[np.lexsort((children, sort_key(view, asked.sort)(children)))]
    pairs = enumerate(children.tolist(), start=1)
    return [(child, place) for place, child in pairs if only is None or only[child]], len(children)


def sort_key(view: PolicyView, sort: str) -> Callable[[I8], npt.NDArray[Any]]:
    """Numbers to sort entries by; what has none, or none that the actor may see, comes last either way."""
    name, sign = sort.removeprefix("-"), -1.0 if sort.startswith("-") else 1.0
    if name not in SORTS:
        return lambda here: here
    if name == "name":
        return lambda here: sign * _order_of_names(view, here)
    values = _values(view, name)

    def key(here: I8) -> npt.NDArray[Any]:
        found = sign * values[here]
        return np.where(np.isnan(found), np.inf, found)

    return key


def matching(view: PolicyView, query: str) -> list[int]:
    """Visible entries whose name contains the query; of a path, the entry there."""
    wanted = query.strip().casefold()
    if not wanted:
        return []
    if wanted.startswith("/"):
        at = view.tree.index_of_path(query.strip())
        return [at] if at is not None and view.visibility.may_see(at) else []
    mask = view.visibility.mask
    return [i for i, name in enumerate(view.tree.name) if i and wanted in name.casefold() and mask[i]]


def _level_of(view: PolicyView, asked: Arrangement, room: int) -> int:
    """As asked; without that the deepest level down to which all rows fit into `room`. A name is found at any level."""
    if asked.query.strip():
        return DEEPEST
    if asked.level is not None:
        return asked.level
    if asked.off_target:
        return DEEPEST
    if asked.open_uids:
        return 1
    counts = [int(view.visibility.mask[each.start : each.stop].sum()) for each in view.tree.subtree(0)]
    return max(1, int(np.searchsorted(np.cumsum(counts), room, side="right")) - 1)


def _matches(view: PolicyView, asked: Arrangement, level: int) -> Mask | None:
    """What the filters let through; None without a filter."""
    if not asked.is_filtered:
        return None
    found: Mask = np.array(view.visibility.mask) & (view.tree.level <= level)
    if asked.query.strip():
        named = np.zeros(len(found), dtype=np.bool_)
        named[matching(view, asked.query)] = True
        found &= named
    if asked.off_target:
        found &= view.off_target
    return found


def _with_way(view: PolicyView, matches: Mask | None) -> Mask | None:
    """With the entries above them."""
    if matches is None:
        return None
    tree, only = view.tree, matches.copy()
    for each in reversed(tree.subtree(0)[1:]):
        here = np.arange(each.start, each.stop)
        only[tree.parent[here[only[here]]]] = True
    return only


def _open(view: PolicyView, asked: Arrangement, level: int, only: Mask | None) -> Mask:
    tree = view.tree
    is_open: Mask = tree.level < level
    if only is not None:  # the way to what matches; what is below a match stays closed
        is_way = np.zeros(len(tree), dtype=np.bool_)
        is_way[tree.parent[np.flatnonzero(only)[1:] if only[0] else np.flatnonzero(only)]] = True
        is_open = is_open & is_way
    for i in _indices(view, asked.open_uids):
        is_open[[*tree.ancestors(i), i]] = True
    is_open[_indices(view, asked.shut_uids)] = False
    return is_open & (tree.n_children > 0)


def _indices(view: PolicyView, uids: Sequence[UUID]) -> list[int]:
    """Entries that aren't there or may not be seen are passed over."""
    found = (view.tree.index_of_uid(uid) for uid in uids)
    return [i for i in found if i is not None and view.visibility.may_see(i)]


def _counted(groups: npt.NDArray[np.signedinteger[Any]]) -> tuple[I8, I8]:
    """Position within each run of equal numbers, from 1, and the length of the run."""
    if not len(groups):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    starts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]])
    lengths = np.diff(np.r_[starts, len(groups)])
    return np.arange(len(groups)) - np.repeat(starts, lengths) + 1, np.repeat(lengths, lengths)


def _positions(parent: npt.NDArray[np.signedinteger[Any]], shown: Mask, levels: list[I8]) -> tuple[I8, I8]:
    """Depth-first position of each shown entry, and of what follows the rows below it; −1 for others."""
    below = shown.astype(np.int64)  # rows of an entry with those below it
    for here in reversed(levels):
        np.add.at(below, parent[here], below[here])
    at = np.full(len(shown), -1, dtype=np.int64)
    at[0] = 0 if shown[0] else -1
    for here in levels:
        before = np.cumsum(below[here]) - below[here]
        nth, _of = _counted(parent[here])
        first = np.maximum.accumulate(np.where(nth == 1, before, 0))
        at[here] = at[parent[here]] + 1 + before - first
    return at, np.where(at >= 0, at + below, -1)


def _values(view: PolicyView, name: str) -> F8:
    """(n,), NaN where there is none to show: target as a part of the parent, deviation in points, factor, rank."""
    if name == "target":
        return np.where(view.competes, view.target[0], np.nan)
    if view.snapshot is None:
        return np.full(len(view.tree), np.nan)
    values, place = view.snapshot.values, view.snapshot_index
    at = np.maximum(place, 0)
    known = place >= 0
    is_leaf = known & (view.tree.n_children == 0)  # groups have neither
    if name == "factor":
        return np.where(is_leaf & values.has_factor[at], values.factor[at], np.nan)
    if name == "rank":
        return np.where(is_leaf & values.has_rank[at], values.rank[at], np.nan)
    competes = known & view.competes & values.competes[at]
    return np.where(competes, values.actual[at] - view.target[0], np.nan)


def _order_of_names(view: PolicyView, here: I8) -> I8:
    names = np.array([view.tree.name[i].casefold() for i in here.tolist()], dtype=object)
    _sorted, order = np.unique(names, return_inverse=True)
    return np.asarray(order, dtype=np.int64)
