"""Derive the operations between two trees, compare two trees for display, and refuse changes below mounts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import numpy as np

from apps.core.errors import FieldProblem, NotAllowed
from apps.policies.operations.apply import Operation
from apps.policies.operations.tree_edits import Archived
from apps.policies.tree.columns import F8, Mask, Node, TreeColumns
from apps.policies.tree.document_merge import IndexArray, differs, indexes_of
from apps.policies.tree.names import LONGEST_ENTRY_NAME, PARENT, RESERVE
from apps.policies.tree.working_tree import WorkingTree

_SAME = 1e-12

# What can happen to an entry, in display order. TARGET_ONLY excludes all others: the entry itself is unchanged.
ADDED, ARCHIVED, MOVED, RENAMED = "added", "archived", "moved", "renamed"
RESHARED, OTHERWISE, TARGET_ONLY = "shares changed", "other fields changed", "target changed indirectly"
CHANGES = (ADDED, ARCHIVED, MOVED, RENAMED, RESHARED, OTHERWISE, TARGET_ONLY)
# Stable codes for programs; the labels above may change.
CODES = dict(zip(CHANGES, ("added", "archived", "moved", "renamed", "shares", "other", "target_only"), strict=True))
_MOST_NAMED_PATHS = 50


def operations_between(
    before: TreeColumns, after: TreeColumns, *, archived: Archived = lambda uid: ()
) -> list[Operation]:
    """Return operations that turn `before` into `after`, as imports and reverts need; entries are matched by uid.

    archived: returns an archived entry with its descendants, as in `apply_operations`; such entries are restored, not
    added. The list is empty if the trees are equal.
    """
    return _OperationFinder(before, after, archived).operations()


def changed_entries(before: TreeColumns, after: TreeColumns) -> tuple[Mask, Mask]:
    """Return masks of the entries of `after` that are new or changed, and of the entries of `before` that `after`
    lacks."""
    in_before = indexes_of(after.uid, before)
    gone = np.ones(len(before), dtype=np.bool_)
    gone[in_before[in_before >= 0]] = False
    return (in_before < 0) | differs(after, before, in_before), gone


def new_uids(before: TreeColumns, after: TreeColumns) -> list[UUID]:
    """List the entries of `after` that `before` lacks."""
    return [after.uuid(i) for i in np.flatnonzero(indexes_of(after.uid, before) < 0).tolist()]


class _OperationFinder:
    """Applies each operation to a tree as soon as it is found, so that every operation is valid when its turn comes.

    First, whole subtrees are archived. Then entries move to their parents from the root down: everything above them is
    in its final position, so no move closes a cycle. Entries with a conflicting name are renamed first. Operations that
    need an empty entry come last: late archiving, reserves, leaves, locks.
    """

    def __init__(self, before: TreeColumns, after: TreeColumns, archived: Archived) -> None:
        self.before, self.after, self.archived = before, after, archived
        self.tree = WorkingTree(before)
        self.found: list[Operation] = []
        self.late: list[Operation] = []
        # Uids of entries that came back because an ancestor was restored.
        self.brought: list[UUID] = []

    def operations(self) -> list[Operation]:
        changed, gone = changed_entries(self.before, self.after)
        emptied = self._archive_whole(gone)
        for i in np.flatnonzero(changed).tolist():
            wanted = self.after.node(i)
            node = self.tree.get(wanted.uid)
            if node is None:
                node = self._insert(wanted)
            elif (node.parent_uid, node.name) != (wanted.parent_uid, wanted.name):
                node = self._move_to(node, wanted)
            self._apply_values(node, wanted)
        kept = {self.after.uid[i].tobytes() for i in range(len(self.after))} if self.brought else set()
        self._archive_left([*emptied, *(uid for uid in self.brought if uid.bytes not in kept)])
        return [*self.found, *self.late]

    def _archive_whole(self, gone: Mask) -> list[UUID]:
        """Archive subtrees that are removed as a whole; return removed entries that something has to leave first."""
        stays_below = (~gone).astype(np.int64)
        self.before.combine_up(np.add, stays_below)
        whole = stays_below == 0
        tops = np.flatnonzero(whole & ~whole[np.maximum(self.before.parent, 0)])
        for i in tops.tolist():
            self._archive(self.before.node(i))
        return [self.before.uuid(i) for i in np.flatnonzero(gone & ~whole).tolist()]

    def _archive_left(self, uids: Sequence[UUID]) -> None:
        for uid in uids:
            node = self.tree.get(uid)
            if node is not None:
                self._archive(node)

    def _archive(self, node: Node) -> None:
        self.found.append({"op": "archive", "entry": str(node.uid)})
        self.tree.remove(node)

    def _insert(self, wanted: Node) -> Node:
        self._clear(wanted)
        known = [node for node in self.archived(wanted.uid) if self.tree.get(node.uid) is None]
        place = {"parent": str(wanted.parent_uid), "name": wanted.name}
        if known:
            self.found.append({"op": "restore", "entry": str(wanted.uid), **place})
            top = replace(known[0], parent_uid=wanted.parent_uid, name=wanted.name)
            for each in (top, *known[1:]):
                self.tree.add(each)
            self.brought += [node.uid for node in known[1:]]
            return top
        is_late = wanted.kind == RESERVE
        self.found.append(
            {
                "op": "add",
                **place,
                "kind": wanted.kind,
                "shares": _shares_json(wanted),
                "uid": str(wanted.uid),
                "is_group": wanted.is_group and not is_late,
            }
        )
        node = Node(wanted.uid, wanted.parent_uid, wanted.name, wanted.kind, wanted.shares, wanted.is_group)
        self.tree.add(node)
        return node

    def _move_to(self, node: Node, wanted: Node) -> Node:
        self._clear(wanted)
        if node.parent_uid != wanted.parent_uid:
            move: Operation = {"op": "move", "entry": str(node.uid), "parent": str(wanted.parent_uid)}
            self.found.append(move if node.name == wanted.name else {**move, "name": wanted.name})
        else:
            self.found.append({"op": "rename", "entry": str(node.uid), "name": wanted.name})
        return self.tree.replace(node, parent_uid=wanted.parent_uid, name=wanted.name)

    def _clear(self, wanted: Node) -> None:
        """Rename the entry that occupies the wanted name; its own change or removal follows later."""
        if wanted.parent_uid is None:
            return
        taken = self.tree.child_named(wanted.parent_uid, wanted.name)
        if taken is None:
            return
        number = 1
        while self.tree.child_named(wanted.parent_uid, name := f"{wanted.name[: LONGEST_ENTRY_NAME - 12]} ~{number}"):
            number += 1
        self.found.append({"op": "rename", "entry": str(taken.uid), "name": name})
        self.tree.replace(taken, name=name)

    def _apply_values(self, node: Node, wanted: Node) -> None:
        uid = str(node.uid)
        if node.locked and not wanted.locked:
            self.found.append({"op": "lock", "entry": uid, "locked": False})
        needs_no_children = wanted.kind == RESERVE or (node.is_group and not wanted.is_group)
        if (node.kind, node.is_group) != (wanted.kind, wanted.is_group):
            change: Operation = {"op": "set_kind", "entry": uid, "kind": wanted.kind, "is_group": wanted.is_group}
            (self.late if needs_no_children else self.found).append(change)
        if node.shares != wanted.shares:
            self.found.append({"op": "set_shares", "entry": uid, "shares": _shares_json(wanted)})
        if (node.scope, node.scope_sources) != (wanted.scope, wanted.scope_sources):
            self.found.append(
                {
                    "op": "set_scope",
                    "entry": uid,
                    "scope": wanted.scope,
                    "sources": list(wanted.scope_sources),
                }
            )
        if node.dates != wanted.dates:
            self.found.append({"op": "set_dates", "entry": uid, "dates": wanted.field_json("dates")})
        if node.members != wanted.members:
            self.found.append(
                {"op": "set_members", "entry": uid, "members": [rule.stored() for rule in wanted.members]}
            )
        if node.mount != wanted.mount:
            mount = None if wanted.mount is None else wanted.field_json("mount")
            self.found.append({"op": "mount", "entry": uid, "mount": mount})
        if wanted.locked and not node.locked:
            self.late.append({"op": "lock", "entry": uid, "locked": True})
        names = ("kind", "shares", "is_group", "scope", "scope_sources", "locked", "dates", "members", "mount")
        self.tree.replace(node, **{name: getattr(wanted, name) for name in names})


def _shares_json(node: Node) -> Any:
    return PARENT if node.shares is None else node.shares


@dataclass(frozen=True)
class EntryChange:
    """Changes of one entry (it may be moved and renamed at once) and its target among siblings before and after.

    before, after: None if there is no target: the entry doesn't exist, or a member of its group inherits.
    """

    path: str
    changes: tuple[str, ...]
    before: float | None
    after: float | None


@dataclass(frozen=True)
class Comparison:
    """Comparison of two trees; `entries` is the beginning of the list of entries that differ, largest target change
    first.

    counted: number of entries of the whole list for each item of `CHANGES`.
    """

    counted: tuple[int, ...]
    n_entries: int
    entries: tuple[EntryChange, ...]

    @property
    def is_empty(self) -> bool:
        return self.n_entries == 0

    def counts(self) -> list[tuple[str, int]]:
        """Return (label, number) for each kind of change, zeros included."""
        return list(zip(CHANGES, self.counted, strict=True))


def compare(before: TreeColumns, after: TreeColumns, *, most: int = 200) -> Comparison:
    """Compare two trees; list at most `most` entries, by decreasing change of target, then in tree order."""
    changed, gone = changed_entries(before, after)
    in_before = indexes_of(after.uid, before)
    was, is_now = sibling_targets(before), sibling_targets(after)
    old = np.where(in_before >= 0, was[np.maximum(in_before, 0)], np.nan)
    kinds = _kinds(before, after, in_before, changed)
    kinds[:, CHANGES.index(TARGET_ONLY)] = ~changed & _differ(old, is_now)
    kept, lost = np.flatnonzero(kinds.any(axis=1)), np.flatnonzero(gone)
    size = np.concatenate([_size(old, is_now)[kept], np.nan_to_num(was[lost])])
    counted = kinds.sum(axis=0)
    counted[CHANGES.index(ARCHIVED)] = len(lost)
    entries = []
    for line in np.argsort(-size, kind="stable")[:most].tolist():
        if line < len(kept):
            i = int(kept[line])
            what = tuple(word for word, holds in zip(CHANGES, kinds[i].tolist(), strict=True) if holds)
            entries.append(EntryChange(after.path(i), what, number_or_none(old[i]), number_or_none(is_now[i])))
        else:
            i = int(lost[line - len(kept)])
            entries.append(EntryChange(before.path(i), (ARCHIVED,), number_or_none(was[i]), None))
    return Comparison(tuple(counted.tolist()), len(kept) + len(lost), tuple(entries))


def sibling_targets(tree: TreeColumns) -> F8:
    """Return each entry's shares divided by the sum of its competitors' shares; NaN for the root and where it inherits.

    The children of an entry that inherits compete one level higher (see `Competition`).
    """
    contest, entry, _seat, _is_whole = tree.engine_tree().competition
    own = contest.shares[1:]
    total = np.bincount(contest.parent[1:], weights=own, minlength=len(contest.parent))[contest.parent[1:]]
    target = np.full(len(tree), np.nan)
    target[entry[1:]] = np.divide(own, total, out=np.zeros(len(own)), where=total > 0)
    return target


def _kinds(before: TreeColumns, after: TreeColumns, in_before: IndexArray, changed: Mask) -> Mask:
    """Mask of changes, shape (entries of `after`, CHANGES)."""
    kinds = np.zeros((len(after), len(CHANGES)), dtype=np.bool_)
    kinds[:, CHANGES.index(ADDED)] = in_before < 0
    both = np.flatnonzero(changed & (in_before >= 0))
    old = in_before[both]
    parents = (np.maximum(after.parent[both], 0), np.maximum(before.parent[old], 0))
    moved = (after.uid[parents[0]] != before.uid[parents[1]]).any(axis=1)
    renamed = after.names.take(both).differ(before.names.take(old))
    reshared = (after.shares[both] != before.shares[old]) | (after.inherit[both] != before.inherit[old])
    for word, mask in ((MOVED, moved), (RENAMED, renamed), (RESHARED, reshared)):
        kinds[both, CHANGES.index(word)] = mask
    kinds[both, CHANGES.index(OTHERWISE)] = ~(moved | renamed | reshared)
    return kinds


def _size(old: F8, new: F8) -> F8:
    return np.asarray(np.abs(np.nan_to_num(new) - np.nan_to_num(old)), dtype=np.float64)


def _differ(old: F8, new: F8) -> Mask:
    return np.asarray((_size(old, new) > _SAME) | (np.isnan(old) != np.isnan(new)), dtype=np.bool_)


def number_or_none(value: float) -> float | None:
    """Return the number; None for NaN."""
    return None if np.isnan(value) else float(value)


def mount_of(tree: TreeColumns, i: int) -> int | None:
    """Return the index of the mount that an entry is or is below; None for local entries."""
    return next((step for step in [i, *reversed(tree.ancestors(i))] if step in tree.mount), None)


def refuse_inside_mounts(head: TreeColumns, following: TreeColumns) -> None:
    """Refuse a tree that changes entries below a continuing mount, because only its authority may change those.

    Raises:
        NotAllowed: code mounted, with the paths of the entries.
    """
    stay = {head.uuid(i) for i in head.mount} & {following.uuid(i) for i in following.mount}
    if not stay:
        return
    changed, gone = changed_entries(head, following)
    in_head = indexes_of(following.uid, head)
    wrong = [head.path(i) for i in np.flatnonzero(gone).tolist() if _above(head, i) in stay]
    for i in np.flatnonzero(changed).tolist():
        before = int(in_head[i])
        if _above(following, i) in stay or (before >= 0 and _above(head, before) in stay):
            wrong.append(following.path(i))
    if wrong:
        message = "is below a mount, and only the site that publishes it can change that"
        fields = [FieldProblem(path, message) for path in wrong[:_MOST_NAMED_PATHS]]
        raise NotAllowed(f"{fields[0].where} {message}.", code="mounted", fields=fields)


def _above(tree: TreeColumns, i: int) -> UUID | None:
    """Return the uid of the mount that an entry is below; the mount itself counts as local."""
    parent = int(tree.parent[i])
    mount = mount_of(tree, parent) if parent >= 0 else None
    return None if mount is None else tree.uuid(mount)
