"""Priority vectors: the components root→entry, compared as if padded with the balance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apps.engine.arrays import IntArray
from apps.engine.tree import FairshareTree


def balance(resolution: int) -> int:
    """The component of an entry on target, r//2: what a missing level counts as."""
    return resolution // 2


def lineage(tree: FairshareTree, entry: int) -> IntArray:
    """Entries from below the root down to `entry`; empty for the root."""
    found = []
    while entry > 0:
        found.append(entry)
        entry = int(tree.parent[entry])
    return np.array(found[::-1], dtype=np.int64)


def pad(vector: Sequence[int], depth: int, resolution: int) -> list[int]:
    """The vector with missing levels filled by r//2; for comparison only."""
    return [*vector, *[balance(resolution)] * (depth - len(vector))]


def compare(one: Sequence[int], other: Sequence[int], resolution: int) -> int:
    """1 when `one` is ahead, −1 when behind, 0 when they tie: lexicographic, padded, higher wins."""
    depth = max(len(one), len(other))
    first, second = pad(one, depth, resolution), pad(other, depth, resolution)
    return (first > second) - (first < second)


def padded_matrix(tree: FairshareTree, component: IntArray, entries: IntArray, *, depth: int, fill: int) -> IntArray:
    """Padded vectors of `entries`, shape (len(entries), depth)."""
    rows = np.full((len(entries), depth), fill, dtype=np.int64)
    level_of = np.searchsorted(tree.level_offsets, entries, side="right") - 1
    at = entries.copy()
    for level in range(int(level_of.max(initial=0)), 0, -1):
        inside = level_of >= level
        if level <= depth:
            rows[inside, level - 1] = component[at[inside]]
        at[inside] = tree.parent[at[inside]]
    return rows
