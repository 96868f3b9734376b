"""Entries in the order in which documents list them, parents first."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from apps.policies.files.plain_leaves import Entries, plain_leaves
from apps.policies.tree.columns import Mask, Node, TreeColumns

_FEW, _LEAVES_AT_ONCE = 8, 10_000


def walk_document(tree: TreeColumns) -> Iterator[tuple[int | Entries, int]]:
    """Yield (entry, level) in document order, parents first, and (−1, level) after the last child of each group.

    Plain leaves that follow each other come as one array.
    """
    is_plain = plain_leaves(tree)
    stack: list[tuple[int | Entries, int]] = [(0, 0)]
    while stack:
        step, level = stack.pop()
        yield step, level
        if isinstance(step, int) and step >= 0 and tree.is_group[step]:
            stack.append((-1, level))
            children = tree.children(step)
            stack += ((each, level + 1) for each in _steps(tree.listed[children.start : children.stop], is_plain)[::-1])


def _steps(children: Entries, is_plain: Mask) -> list[int | Entries]:
    """The children in their order: some plain ones that follow each other as one array."""
    steps: list[int | Entries] = []
    if len(children) < _FEW:
        steps += children.tolist()
        return steps
    plain = is_plain[children]
    ends = np.append(np.flatnonzero(plain[1:] != plain[:-1]) + 1, len(children))
    begin = 0
    for end in ends.tolist():
        if plain[begin] and end - begin >= _FEW:
            steps += (children[at : min(at + _LEAVES_AT_ONCE, end)] for at in range(begin, end, _LEAVES_AT_ONCE))
        else:
            steps += children[begin:end].tolist()
        begin = end
    return steps


class WalkedNodes:
    """Nodes as a walk from parents to children asks for them: made with their siblings, and dropped with them.

    A million nodes at once would take half a gigabyte.
    """

    def __init__(self, tree: TreeColumns) -> None:
        self._tree = tree
        self._siblings: dict[int, tuple[range, list[Node]]] = {}  # by level

    def node(self, i: int, level: int) -> Node:
        here, nodes = self._siblings.get(level, (range(0), []))
        if i not in here:
            here = self._tree.children(int(self._tree.parent[i])) if i else range(1)
            nodes = list(self._tree.nodes_of(here))
            self._siblings[level] = here, nodes
        return nodes[i - here.start]
