"""The rows of a group's level: its competing children, its members together, and what counts at the group itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from apps.policies.tree.columns import TreeColumns

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]
RowKind = Literal["group", "members", "direct", "unmapped"]
NO_ROW = -1


@dataclass(frozen=True, slots=True)
class LevelRow:
    """kind: group: an entry of its own, reserves included. members: children that stand for users, all in one row.
    direct: what counts at the group itself. unmapped: accounts without an entry.

    entry: index of a group's entry, else −1. target: among the siblings; of several members their sum; 0 for what has
    none.
    """

    kind: RowKind
    entry: int
    target: float


@dataclass(frozen=True, eq=False)
class Level:
    """rows: groups by name, then the others. row_of: (entries,) row of each entry below the group, −1 of others.

    read: indices of the entries whose numbers the rows show.
    """

    group: int
    rows: Sequence[LevelRow]
    row_of: I8
    read: I8

    @property
    def target(self) -> F8:
        return np.array([row.target for row in self.rows], np.float64)

    def of_entries(self, entry: npt.NDArray[np.integer]) -> I8:
        """Rows of accounts by their entries, (n,); −1 for an account elsewhere. entry: −1 for unmapped accounts."""
        unmapped = next((i for i, row in enumerate(self.rows) if row.kind == "unmapped"), NO_ROW)
        rows: I8 = np.where(entry >= 0, self.row_of[np.maximum(entry, 0)], unmapped)
        return rows


def level_of(tree: TreeColumns, target: F8, group: int, *, with_unmapped: bool) -> Level:
    """The level of a group.

    Children of an entry that inherits its shares compete one level up, in its place. Its own accounts, and those of an
    inheriting leaf, count at the group itself, as in the tree.

    Args:
        target: (entries,) targets among siblings, undefined for entries that inherit.
        with_unmapped: whether accounts without an entry are a row; only of the whole policy.
    """
    groups, members, read = _competing(tree, group)
    rows = [LevelRow("group", i, float(target[i])) for i in groups]
    row_of = np.full(len(tree), NO_ROW, np.int64)
    row_of[groups] = np.arange(len(groups))
    if members:
        row_of[members] = len(rows)
        rows.append(LevelRow("members", -1, float(target[members].sum())))
    direct = len(rows)
    rows.append(LevelRow("direct", -1, 0.0))
    inherits = [i for i in read if row_of[i] == NO_ROW]
    row_of[[group, *inherits]] = direct
    for level in tree.subtree(group)[1:]:
        here = slice(level.start, level.stop)
        above = row_of[tree.parent[here]]
        row_of[here] = np.where(row_of[here] == NO_ROW, above, row_of[here])
    if with_unmapped and group == 0:
        rows.append(LevelRow("unmapped", -1, 0.0))
    return Level(group, rows, row_of, np.array([group, *read], np.int64))


def _competing(tree: TreeColumns, group: int) -> tuple[list[int], list[int], list[int]]:
    """Groups by path, members, and all entries passed on the way to them."""
    groups: list[int] = []
    members: list[int] = []
    read: list[int] = []
    waiting = list(tree.children(group))
    while waiting:
        i = waiting.pop()
        read.append(i)
        if tree.inherit[i]:
            waiting += tree.children(i)
        elif tree.is_group[i] or tree.is_reserve[i] or tree.n_children[i]:
            groups.append(i)
        else:
            members.append(i)
    return sorted(groups, key=tree.path), sorted(members), sorted(read)
