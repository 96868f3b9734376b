"""A tree being edited: changes laid over the columns of a revision, so that small edits of large trees are cheap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.names import MAX_DEPTH


class WorkingTree:
    """Searches entries in the changes first, then in the revision. Knows nothing of operations or people."""

    def __init__(self, base: TreeColumns) -> None:
        self.base = base
        self.changed: dict[UUID, Node | None] = {}  # None: no longer there
        self._children: dict[UUID, dict[str, UUID]] = {}  # of parents whose children came, went or were renamed

    @property
    def root(self) -> Node:
        node = self.get(self.base.uuid(0))
        assert node is not None, "the root is never removed"  # noqa: S101 - an invariant, not input
        return node

    def get(self, uid: UUID) -> Node | None:
        if uid in self.changed:
            return self.changed[uid]
        i = self.base.index_of_uid(uid)
        return None if i is None else self.base.node(i)

    def children(self, uid: UUID) -> list[Node]:
        """Sorted by name."""
        if uid in self._children:
            names = self._children[uid]
            return [self._present(names[name]) for name in sorted(names)]
        i = self.base.index_of_uid(uid)
        if i is None:
            return []
        return [self._present(self.base.uuid(j)) for j in self.base.children(i)]

    def child_named(self, uid: UUID, name: str) -> Node | None:
        if uid in self._children:
            found = self._children[uid].get(name)
            return None if found is None else self._present(found)
        i = self.base.index_of_uid(uid)
        j = None if i is None else self.base.child_named(i, name)
        return None if j is None else self._present(self.base.uuid(j))

    def n_children(self, uid: UUID) -> int:
        if uid in self._children:
            return len(self._children[uid])
        i = self.base.index_of_uid(uid)
        return 0 if i is None else len(self.base.children(i))

    def find_path(self, path: str) -> Node | None:
        node: Node | None = self.root
        for name in path.strip("/").split("/") if path.strip("/") else ():
            node = None if node is None else self.child_named(node.uid, name)
        return node

    def lineage(self, node: Node) -> list[Node]:
        """Root first, the entry itself last."""
        found = [node]
        while found[-1].parent_uid is not None:
            found.append(self._present(found[-1].parent_uid))
        return found[::-1]

    def path(self, node: Node) -> str:
        return "/" + "/".join(step.name for step in self.lineage(node)[1:])

    def subtree(self, node: Node) -> Iterator[Node]:
        """The entry and all below it, parents first."""
        level = [node]
        while level:
            yield from level
            level = [child for above in level for child in self.children(above.uid)]

    def height(self, node: Node) -> int:
        """Levels below the entry."""
        height, level = -1, [node]
        while level and height <= MAX_DEPTH:
            level = [child for above in level for child in self.children(above.uid)]
            height += 1
        return height

    def replace(self, node: Node, **fields: Any) -> Node:
        """Set fields of an entry; its place and name too."""
        after = replace(node, **fields)
        self.changed[node.uid] = after
        if (after.parent_uid, after.name) != (node.parent_uid, node.name) and node.parent_uid is not None:
            self._names_of(node.parent_uid).pop(node.name)
            if after.parent_uid is not None:
                self._names_of(after.parent_uid)[after.name] = after.uid
        return after

    def add(self, node: Node) -> None:
        if node.parent_uid is not None:
            self._names_of(node.parent_uid)[node.name] = node.uid
        self.changed[node.uid] = node

    def remove(self, node: Node) -> list[Node]:
        """Remove the entry and all below it; return them, parents first."""
        gone = list(self.subtree(node))
        if node.parent_uid is not None:
            self._names_of(node.parent_uid).pop(node.name)
        for each in gone:
            self.changed[each.uid] = None
            self._children.pop(each.uid, None)
        return gone

    def changes(self) -> dict[UUID, tuple[Node | None, Node | None]]:
        """Before and after of every entry that differs from the revision."""
        found = {}
        for uid, after in self.changed.items():
            i = self.base.index_of_uid(uid)
            before = None if i is None else self.base.node(i)
            if before != after:
                found[uid] = (before, after)
        return found

    def _present(self, uid: UUID) -> Node:
        node = self.get(uid)
        assert node is not None, f"{uid} is missing although something refers to it"  # noqa: S101 - an invariant
        return node

    def _names_of(self, uid: UUID) -> dict[str, UUID]:
        if uid not in self._children:
            i = self.base.index_of_uid(uid)
            children = () if i is None else self.base.children(i)
            self._children[uid] = {self.base.name[j]: self.base.uuid(j) for j in children}
        return self._children[uid]
