"""Who is ahead at one level, and at which level those ahead part from an entry: counted by components and by ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apps.priorities.serving.lookup_index import ServedSnapshot

I8 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_SAME_PRIORITY = 1e-9  # what is nearer than this is equal without any rounding


@dataclass(frozen=True, slots=True)
class Beside:
    """Of those an entry is compared with, itself and reserves left out; see WalkStep for what each number counts."""

    n_ahead: int = 0
    n_siblings: int = 0
    n_equal: int = 0
    n_rounded: int = 0


def siblings_of(snapshot: ServedSnapshot, i: int) -> Beside:
    """Two leaves are compared by their ranks, which are the order; any other pair by what siblings are compared by."""
    contest, entry_of, seat, _ = snapshot.tree.engine_tree().competition
    at, values, order = int(seat[i]), snapshot.values, snapshot.order
    parent = int(contest.parent[at])
    first, count = int(contest.first_child[parent]), int(contest.child_count[parent])
    group = np.arange(first, first + count)
    others = entry_of[group[(group != at) & ~contest.is_reserve[group]]]
    component = order.components(values)
    ahead, equal = order.ahead(component[others], component[i]), order.ties(component[others], component[i])
    if values.is_ranked[i]:
        leaves = values.is_ranked[others]
        ahead = np.where(leaves, values.rank[others] < values.rank[i], ahead)
        equal = np.where(leaves, values.rank[others] == values.rank[i], equal & ~ahead)
    if order.explanation.kind != "levels":
        return Beside(int(ahead.sum()), len(others))
    rounded = np.zeros(len(others), dtype=np.bool_)
    if order.decides == "vector":
        rounded = equal & (np.abs(values.priority[others] - values.priority[i]) > _SAME_PRIORITY)
    return Beside(int(ahead.sum()), len(others), int(equal.sum()), int(rounded.sum()))


def deciding_level(snapshot: ServedSnapshot, entry: int) -> int | None:
    """The entry at which most leaves ahead diverge from this one; where none is ahead, most of those behind."""
    rows, depth_of = snapshot.lineage(np.array([entry]))
    own = rows[0, : int(depth_of[0])]
    if not len(own) or not snapshot.n_ranked:
        return None
    ahead, behind = _parted(snapshot, own)
    counts = ahead if sum(ahead) else behind
    return int(own[int(np.argmax(counts))]) if sum(counts) else None


def _parted(snapshot: ServedSnapshot, own: I8) -> tuple[list[int], list[int]]:
    """At each level, how many leaves are ahead and behind that have the same components on all levels above.

    A leaf ahead by another rule (the order of a listing) is counted where the paths diverge.
    """
    order, values, leaves = snapshot.order, snapshot.values, snapshot.leaf_components
    ranks, at = values.rank[values.is_ranked], int(own[-1])
    has_rank = bool(values.has_rank[at])
    is_ahead, is_behind = ranks < values.rank[at], ranks > values.rank[at]
    mine = order.components(values)[own]
    level_with, left = np.ones(len(leaves), dtype=np.bool_), np.ones(len(leaves), dtype=np.bool_)
    ahead, behind = [], []
    for level in range(len(own)):
        theirs = leaves[:, level] if level < leaves.shape[1] else np.full(len(leaves), order.fill)
        goes_first, ties = level_with & order.ahead(theirs, mine[level]), order.ties(theirs, mine[level])
        goes_last = level_with & ~goes_first & ~ties
        if has_rank:
            goes_first, goes_last = goes_first & is_ahead, goes_last & is_behind
        ahead.append(int(goes_first.sum()))
        behind.append(int(goes_last.sum()))
        left &= ~(goes_first | goes_last)
        level_with &= ties
    if has_rank:
        _add_by_path(snapshot, own, (left & is_ahead, left & is_behind), (ahead, behind))
    return ahead, behind


def _add_by_path(
    snapshot: ServedSnapshot, own: I8, masks: tuple[Mask, Mask], counts: tuple[list[int], list[int]]
) -> None:
    """Count the leaves of each mask at the level at which their path leaves this one."""
    if not (masks[0].any() or masks[1].any()):
        return
    rows, depth_of = snapshot.lineage(np.flatnonzero(snapshot.values.is_ranked))
    width = min(len(own), rows.shape[1])
    same = (rows[:, :width] == own[:width]) & (np.arange(width) < depth_of[:, None])
    parts = np.minimum(np.cumprod(same, axis=1).sum(axis=1), len(own) - 1)
    for mask, count in zip(masks, counts, strict=True):
        for level, n in enumerate(np.bincount(parts[mask], minlength=len(own)).tolist()):
            count[level] += n
