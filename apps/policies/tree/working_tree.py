"""An editable tree: edited entries over an unchanged revision, and the next revision's columns from both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.policies.tree.columns import SCOPES, SPARSE, Node, TreeColumns
from apps.policies.tree.names import MAX_DEPTH


class WorkingTree:
    """A tree with edits. Lookups check the edited entries first, then the revision. It applies no permission checks."""

    def __init__(self, base: TreeColumns) -> None:
        self.base = base
        # By uid; None marks a removed entry.
        self.changed: dict[UUID, Node | None] = {}
        # By uid of the parent, name to uid; only of parents whose children were added, removed or renamed.
        self._children: dict[UUID, dict[str, UUID]] = {}
        # Entries of the revision that were asked for: thousands of edits ask for the same parents.
        self._read: dict[UUID, Node | None] = {}

    @property
    def root(self) -> Node:
        node = self.get(self.base.uuid(0))
        assert node is not None, "the root is never removed"  # noqa: S101 - an invariant, not input
        return node

    def get(self, uid: UUID) -> Node | None:
        if uid in self.changed:
            return self.changed[uid]
        if uid not in self._read:
            i = self.base.index_of_uid(uid)
            self._read[uid] = None if i is None else self.base.node(i)
        return self._read[uid]

    def children(self, uid: UUID) -> list[Node]:
        """List the children, sorted by name."""
        if uid in self._children:
            names = self._children[uid]
            return [self._present(names[name]) for name in sorted(names)]
        i = self.base.index_of_uid(uid)
        if i is None:
            return []
        return [self._present(self.base.uuid(j)) for j in self.base.children(i)]

    def child_named(self, uid: UUID, name: str) -> Node | None:
        if uid in self._children:
            child_uid = self._children[uid].get(name)
            return None if child_uid is None else self._present(child_uid)
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
        """Return the entry's ancestors and the entry itself, root first."""
        lineage = [node]
        while lineage[-1].parent_uid is not None:
            lineage.append(self._present(lineage[-1].parent_uid))
        return lineage[::-1]

    def path(self, node: Node) -> str:
        return "/" + "/".join(step.name for step in self.lineage(node)[1:])

    def subtree(self, node: Node) -> Iterator[Node]:
        """Yield the entry and its descendants, parents first."""
        level = [node]
        while level:
            yield from level
            level = [child for above in level for child in self.children(above.uid)]

    def height(self, node: Node) -> int:
        """Return the number of levels below the entry."""
        height, level = -1, [node]
        while level and height <= MAX_DEPTH:
            level = [child for above in level for child in self.children(above.uid)]
            height += 1
        return height

    def replace(self, node: Node, **fields: Any) -> Node:
        """Set fields of an entry, which may include its parent and name; return the new version."""
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
        """Remove the entry with its descendants; return them, parents first."""
        gone = list(self.subtree(node))
        if node.parent_uid is not None:
            self._names_of(node.parent_uid).pop(node.name)
        for each in gone:
            self.changed[each.uid] = None
            self._children.pop(each.uid, None)
        return gone

    def changes(self) -> dict[UUID, tuple[Node | None, Node | None]]:
        """Return each entry that differs from the revision, as (before, after); None where it doesn't exist."""
        changes = {}
        for uid, after in self.changed.items():
            i = self.base.index_of_uid(uid)
            before = None if i is None else self.base.node(i)
            if before != after:
                changes[uid] = (before, after)
        return changes

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


Changes = Mapping[UUID, tuple[Node | None, Node | None]]
Value = TypeVar("Value")
IndexArray = npt.NDArray[np.int64]


def columns_of(nodes: Iterable[Node], *, policy_slug: str = "", number: int = 0) -> TreeColumns:
    """Build columns from entries in any order; they must form one tree."""
    rows = list(nodes)
    row_of = {node.uid: row for row, node in enumerate(rows)}
    parent_row = np.array([-1 if n.parent_uid is None else row_of[n.parent_uid] for n in rows], dtype=np.int64)
    by_name = sorted(range(len(rows)), key=lambda row: rows[row].name)
    rank = np.empty(len(rows), dtype=np.int64)
    rank[by_name] = np.arange(len(rows))
    order, parent = breadth_first(parent_row, rank)
    ordered = [rows[row] for row in order.tolist()]
    kind_names, kind_code = _kind_codes([node.kind for node in ordered])
    return TreeColumns(
        uid=np.frombuffer(b"".join(node.uid.bytes for node in ordered), dtype=np.uint8).reshape(-1, 16),
        parent=parent,
        name=[node.name for node in ordered],
        kind_names=kind_names,
        kind_code=kind_code,
        shares=np.array([node.shares or 0.0 for node in ordered], dtype=np.float64),
        inherit=np.array([node.shares is None for node in ordered], dtype=np.bool_),
        is_group=np.array([node.is_group for node in ordered], dtype=np.bool_),
        scope_code=np.array([SCOPES.index(node.scope) for node in ordered], dtype=np.uint8),
        locked=np.array([node.locked for node in ordered], dtype=np.bool_),
        scope_sources={i: node.scope_sources for i, node in enumerate(ordered) if node.scope_sources},
        dates={i: node.dates for i, node in enumerate(ordered) if node.dates},
        members={i: node.members for i, node in enumerate(ordered) if node.members},
        mount={i: node.mount for i, node in enumerate(ordered) if node.mount},
        policy_slug=policy_slug,
        number=number,
    )


def apply_changes(base: TreeColumns, changes: Changes) -> TreeColumns:
    """Return the columns after the changes. Unchanged entries are moved as arrays, not one by one."""
    same_shape = all(
        before is not None and after is not None and (before.parent_uid, before.name) == (after.parent_uid, after.name)
        for before, after in changes.values()
    )
    if same_shape:
        return _with_values(base, [after for _, after in changes.values() if after is not None])
    return _with_new_shape(base, changes)


def _with_values(base: TreeColumns, nodes: Sequence[Node]) -> TreeColumns:
    """Overwrite the values of the given entries; parents and names don't change."""
    kinds = list(base.kind_names)
    for kind in sorted({node.kind for node in nodes} - set(kinds)):
        kinds.append(kind)
    kind_code, shares, scope_code = base.kind_code.copy(), base.shares.copy(), base.scope_code.copy()
    inherit, is_group, locked = base.inherit.copy(), base.is_group.copy(), base.locked.copy()
    sparse: dict[str, dict[int, Any]] = {name: dict(getattr(base, name)) for name in SPARSE}
    for node in nodes:
        i = base.index_of_uid(node.uid)
        assert i is not None, "only entries of the tree get values"  # noqa: S101 - an invariant, not input
        kind_code[i] = kinds.index(node.kind)
        shares[i], inherit[i] = node.shares or 0.0, node.shares is None
        is_group[i], locked[i] = node.is_group, node.locked
        scope_code[i] = SCOPES.index(node.scope)
        for name, values in sparse.items():
            values.pop(i, None)
            if value := getattr(node, name):
                values[i] = value
    kind_names, kind_code = without_unused_kinds(tuple(kinds), kind_code)
    return base.with_values(
        kind_names=kind_names,
        kind_code=kind_code,
        shares=shares,
        inherit=inherit,
        is_group=is_group,
        scope_code=scope_code,
        locked=locked,
        scope_sources=sparse["scope_sources"],
        dates=sparse["dates"],
        members=sparse["members"],
        mount=sparse["mount"],
    )


def _with_new_shape(base: TreeColumns, changes: Changes) -> TreeColumns:
    """Build columns from the remaining entries and the added ones, then restore breadth-first order."""
    gone = [base.index_of_uid(uid) for uid, (before, after) in changes.items() if before and after is None]
    stays = np.ones(len(base), dtype=np.bool_)
    stays[np.array(gone, dtype=np.int64)] = False
    kept = np.flatnonzero(stays)
    # The extra last item is the row of the root's parent, which has index −1.
    row_of_old = np.full(len(base) + 1, -1, dtype=np.int64)
    row_of_old[kept] = np.arange(len(kept))
    added = [after for before, after in changes.values() if before is None and after is not None]
    row_of_added = {node.uid: len(kept) + k for k, node in enumerate(added)}

    def row_of(uid: UUID) -> int:
        if uid in row_of_added:
            return row_of_added[uid]
        i = base.index_of_uid(uid)
        assert i is not None, "an entry's parent is in the tree"  # noqa: S101 - an invariant, not input
        return int(row_of_old[i])

    parent_row = np.concatenate([row_of_old[base.parent[kept]], [row_of(_parent(node)) for node in added]])
    parent_row = parent_row.astype(np.int64)
    names = [*(base.name[i] for i in kept.tolist()), *(node.name for node in added)]
    touched = set()
    for before, after in changes.values():
        if before is not None and after is not None:
            row = row_of(after.uid)
            names[row] = after.name
            if after.parent_uid is not None:
                parent_row[row] = row_of(after.parent_uid)
        if after is not None and (before is None or (before.parent_uid, before.name) != (after.parent_uid, after.name)):
            touched.add(after.parent_uid)
    # Siblings of groups without added, moved or renamed children keep their order.
    rank = np.arange(len(names), dtype=np.int64)
    _rank_by_name(rank, parent_row, names, [row_of(uid) for uid in touched if uid is not None])
    order, parent = breadth_first(parent_row, rank)
    return _combined_columns(base, changes, kept, added, names, order, parent)


def _combined_columns(
    base: TreeColumns,
    changes: Changes,
    kept: IndexArray,
    added: Sequence[Node],
    names: Sequence[str],
    order: IndexArray,
    parent: npt.NDArray[np.int32],
) -> TreeColumns:
    k = len(added)
    new_uids = np.frombuffer(b"".join(node.uid.bytes for node in added), dtype=np.uint8).reshape(k, 16)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    named = set().union(*(getattr(base, name) for name in SPARSE))
    row_of_old = {i: row for row, i in enumerate(kept.tolist()) if i in named} if named else {}

    def moved(values: Mapping[int, Value]) -> dict[int, Value]:
        return {int(place[row_of_old[i]]): value for i, value in values.items() if i in row_of_old}

    shape = TreeColumns(
        uid=np.concatenate([base.uid[kept], new_uids])[order],
        parent=parent,
        name=[names[row] for row in order.tolist()],
        kind_names=base.kind_names,
        kind_code=np.concatenate([base.kind_code[kept], np.zeros(k, np.uint16)])[order],
        shares=np.concatenate([base.shares[kept], np.zeros(k)])[order],
        inherit=np.concatenate([base.inherit[kept], np.zeros(k, np.bool_)])[order],
        is_group=np.concatenate([base.is_group[kept], np.zeros(k, np.bool_)])[order],
        scope_code=np.concatenate([base.scope_code[kept], np.zeros(k, np.uint8)])[order],
        locked=np.concatenate([base.locked[kept], np.zeros(k, np.bool_)])[order],
        policy_slug=base.policy_slug,
        number=base.number,
        scope_sources=moved(base.scope_sources),
        dates=moved(base.dates),
        members=moved(base.members),
        mount=moved(base.mount),
    )
    return _with_values(shape, [after for _, after in changes.values() if after is not None])


def _parent(node: Node) -> UUID:
    assert node.parent_uid is not None, "only a new entry below another can be added"  # noqa: S101 - an invariant
    return node.parent_uid


def _rank_by_name(rank: IndexArray, parent_row: IndexArray, names: Sequence[str], parents: Sequence[int]) -> None:
    """Rank the children of the given parents by name, in place."""
    is_touched = np.zeros(len(parent_row) + 1, dtype=np.bool_)
    is_touched[parents] = True
    members = np.flatnonzero(is_touched[parent_row])
    by_name = sorted(members.tolist(), key=names.__getitem__)
    rank[by_name] = np.arange(len(by_name))


def breadth_first(parent_row: IndexArray, rank: IndexArray) -> tuple[IndexArray, npt.NDArray[np.int32]]:
    """Return the breadth-first order of rows, siblings by rank, and each entry's parent index in that order."""
    n = len(parent_row)
    # The root has parent −1, which sorts first and is dropped.
    by_parent = np.lexsort((rank, parent_row))[1:]
    counts = np.bincount(parent_row[by_parent], minlength=n)
    starts = np.cumsum(counts) - counts
    levels = [np.flatnonzero(parent_row < 0)]
    parents = [np.array([-1], dtype=np.int64)]
    seen = 0
    while len(levels[-1]):
        above = levels[-1]
        width = counts[above]
        within = np.arange(int(width.sum())) - np.repeat(np.cumsum(width) - width, width)
        levels.append(by_parent[np.repeat(starts[above], width) + within])
        parents.append(np.repeat(seen + np.arange(len(above)), width))
        seen += len(above)
    order = np.concatenate(levels)
    if len(order) != n:
        raise ValueError("The entries are not one tree.")
    return order, np.concatenate(parents).astype(np.int32)


def _kind_codes(kinds: Sequence[str]) -> tuple[tuple[str, ...], npt.NDArray[np.uint16]]:
    names = tuple(sorted(set(kinds)))
    number = {name: code for code, name in enumerate(names)}
    return names, np.array([number[kind] for kind in kinds], dtype=np.uint16)


def without_unused_kinds(
    kinds: tuple[str, ...], code: npt.NDArray[np.uint16]
) -> tuple[tuple[str, ...], npt.NDArray[np.uint16]]:
    """Sort the kinds and drop unused ones, so that equal trees have equal blobs; return kinds and codes."""
    used = np.flatnonzero(np.bincount(code, minlength=len(kinds)))
    names = sorted(kinds[i] for i in used.tolist())
    new = np.array([names.index(kind) if kind in names else 0 for kind in kinds], dtype=np.uint16)
    return tuple(names), new[code]
