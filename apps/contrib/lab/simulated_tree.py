"""The part of a tree that takes part in a simulation: what has jobs or past usage, and what it competes with.

Rule: an entry takes part if it or an entry below it has jobs or usage. The others start nothing and use nothing, so
they change no comparison but by their shares, of which targets are parts. In each group they are one entry, the rest,
with the sum of these shares: targets stay what they are in the whole tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.engine.algorithms.inputs import prepare
from apps.engine.cases import Policy
from apps.engine.tree import FairshareTree
from apps.policies.tree.names import creation_ranks

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
REST = "…"  # the name of the siblings that take no part
COLUMNS = ("uid", "parent", "shares", "inherits", "is_group", "is_reserve", "is_user", "is_global", "is_rest")


@dataclass(frozen=True, eq=False)
class SimulatedTree:
    """Entries breadth-first, (n,), entry 0 the root. uid: (n, 16), zeros for a rest. is_global: whether the children
    are compared by usage of all sites. is_rest: the sum of siblings that take no part.
    """

    uid: npt.NDArray[np.uint8]
    parent: I8
    name: Sequence[str]
    shares: F8
    inherits: Mask
    is_group: Mask
    is_reserve: Mask
    is_user: Mask
    is_global: Mask
    is_rest: Mask

    def __len__(self) -> int:
        return len(self.parent)

    @cached_property
    def paths(self) -> list[str]:
        """The root is "", as in a scenario."""
        paths = [""]
        for parent, name in zip(self.parent[1:].tolist(), list(self.name)[1:], strict=True):
            paths.append(f"{paths[parent]}/{name}")
        return paths

    @cached_property
    def engine_tree(self) -> FairshareTree:
        uid = self.uid.copy()  # the tree of the engine stays longer than this one, and than the blob of these columns
        tree, _ = FairshareTree.from_columns(
            self.parent,
            self.shares,
            inherits=self.inherits,
            is_group=self.is_group,
            is_reserve=self.is_reserve,
            is_user=self.is_user,
            seniority=lambda: creation_ranks(uid),
        )
        return tree

    @cached_property
    def policy(self) -> Policy:
        return Policy(self.engine_tree, self.paths, {path: entry for entry, path in enumerate(self.paths)})

    @classmethod
    def unnamed(cls, tree: FairshareTree) -> SimulatedTree:
        """A whole tree for which nothing but the comparison of its entries matters. Usage is that of all sites."""
        no = np.zeros(tree.n_entries, dtype=np.bool_)
        return cls(
            uid=np.zeros((tree.n_entries, 16), np.uint8),
            parent=tree.parent.astype(np.int64),
            name=[""] * tree.n_entries,
            shares=tree.shares,
            inherits=tree.inherits,
            is_group=tree.is_group,
            is_reserve=tree.is_reserve,
            is_user=tree.is_user,
            is_global=no,
            is_rest=no,
        )

    def columns(self, prefix: str) -> dict[str, Any]:
        """For `blobs.pack`."""
        return {f"{prefix}{name}": getattr(self, name) for name in COLUMNS} | {f"{prefix}name": list(self.name)}

    @classmethod
    def of_columns(cls, columns: dict[str, Any], prefix: str) -> SimulatedTree:
        return cls(name=columns[f"{prefix}name"], **{name: columns[f"{prefix}{name}"] for name in COLUMNS})


def simulated_part(whole: SimulatedTree, takes_part: Mask, has_usage: Mask) -> tuple[SimulatedTree, I8, I8]:
    """(the part that is simulated, place there of each entry of the whole or −1, place there of its usage).

    takes_part: entries with jobs. has_usage: those with usage before the start. Usage of entries that take no part
    belongs to the rest of their group, or to the entry above where they inherit.
    """
    tree = whole.engine_tree
    active = takes_part.copy()
    active[0] = True
    for level in reversed(tree.levels):
        active[level.parents] |= np.logical_or.reduceat(active[level.lo : level.hi], level.starts)
    above = prepare(tree).fairshare_parent
    is_top = ~active & ~whole.inherits & active[np.maximum(above, 0)]
    goes_to = _where_usage_goes(whole, active, is_top)
    n = len(whole)
    shares = np.bincount(above[is_top], whole.shares[is_top], minlength=n).astype(np.float64)
    is_needed = shares > 0
    used_tops = goes_to[has_usage & is_top[goes_to]]
    is_needed[above[used_tops]] = True
    groups = np.flatnonzero(is_needed)
    part, place, place_of_rest = _joined(whole, active, groups, shares[groups])
    rest_of_group = np.full(n, -1, dtype=np.int64)
    rest_of_group[groups] = place_of_rest
    own_top = np.where(is_top[goes_to], rest_of_group[np.maximum(above[goes_to], 0)], place[goes_to])
    return part, place, own_top


def _where_usage_goes(whole: SimulatedTree, active: Mask, is_top: Mask) -> I8:
    """For each entry the nearest of itself and those above that is the top of an idle part, or takes part."""
    goes_to = np.arange(len(whole), dtype=np.int64)
    for level in whole.engine_tree.levels:
        here = slice(level.lo, level.hi)
        stays = active[here] | is_top[here]
        goes_to[here] = np.where(stays, goes_to[here], goes_to[whole.parent[here]])
    return goes_to


def _joined(whole: SimulatedTree, active: Mask, groups: I8, shares: F8) -> tuple[SimulatedTree, I8, I8]:
    """(the active entries and a rest of each group, place of each entry of the whole or −1, place of each rest)."""
    kept = np.flatnonzero(active)
    n_kept, n_others = len(kept), len(groups)
    row_of = np.full(len(whole), -1, dtype=np.int64)
    row_of[kept] = np.arange(n_kept)
    parent = np.concatenate([row_of[np.maximum(whole.parent[kept], 0)], row_of[groups]])
    parent[0] = -1
    order = _breadth_first(parent)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    names = list(whole.name)
    no, one = np.zeros(n_others, dtype=np.bool_), np.ones(n_others, dtype=np.bool_)

    def joined(column: Any, of_others: Any) -> Any:
        return np.concatenate([column[kept], of_others])[order]

    all_names = [*(names[i] for i in kept.tolist()), *[REST] * n_others]
    new_parent = place[np.maximum(parent, 0)][order]
    new_parent[0] = -1
    part = SimulatedTree(
        uid=np.concatenate([whole.uid[kept], np.zeros((n_others, 16), np.uint8)])[order],
        parent=new_parent,
        name=[all_names[i] for i in order.tolist()],
        shares=joined(whole.shares, shares),
        inherits=joined(whole.inherits, no),
        is_group=joined(whole.is_group, no),
        is_reserve=joined(whole.is_reserve, no),
        is_user=joined(whole.is_user, no),
        is_global=joined(whole.is_global, no),
        is_rest=joined(whole.is_rest, one),
    )
    place_of = np.where(row_of >= 0, place[np.maximum(row_of, 0)], -1)
    return part, place_of, place[n_kept:]


def _breadth_first(parent: I8) -> I8:
    """Rows level by level, siblings adjacent and in the order of their rows."""
    order = np.array([0], dtype=np.int64)
    by_parent = np.argsort(parent, kind="stable")
    first = np.searchsorted(parent[by_parent], np.arange(len(parent)), side="left")
    last = np.searchsorted(parent[by_parent], np.arange(len(parent)), side="right")
    levels = [order]
    while len(order):
        counts = last[order] - first[order]
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        order = by_parent[np.repeat(first[order], counts) + within]
        levels.append(order)
    return np.concatenate(levels)
