"""A revision with a draft's changes, for display; only the displayed entries are built.

Targets are computed group by group, so that an edit in a tree of a million entries costs only what its group costs.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from functools import cached_property
from typing import Literal, NamedTuple
from uuid import UUID

import numpy as np

from apps.policies.tree.columns import Mask, Node, TreeColumns
from apps.policies.tree.working_tree import Changes

Status = Literal["", "added", "moved", "edited"]


class Place(NamedTuple):
    """A child of an entry, as its name and its row in the revision; row is None if the draft added, moved or renamed
    it."""

    name: str
    row: int | None
    uid: UUID | None


class Sum(NamedTuple):
    """The sum by which a group's shares are divided. passes_on: a member inherits, so its children compete here."""

    total: float
    passes_on: bool


class DraftTree:
    """The draft's tree, and the revision's for comparison, entry by entry."""

    def __init__(self, base: TreeColumns, changes: Changes) -> None:
        self.base, self.changes = base, changes
        self._pools: dict[UUID, float] = {}
        self._nodes: dict[UUID, Node | None] = {}
        self._levels: dict[UUID, int] = {}
        self._places: dict[UUID, Sequence[Place]] = {}

    def get(self, uid: UUID) -> Node | None:
        """Return an entry of the draft, or None if it doesn't exist or was archived."""
        if uid in self.changes:
            return self.changes[uid][1]
        return self.before(uid)

    def before(self, uid: UUID) -> Node | None:
        if uid not in self._nodes:
            i = self.base.index_of_uid(uid)
            self._nodes[uid] = None if i is None else self.base.node(i)
        return self._nodes[uid]

    def level(self, node: Node) -> int:
        """Return the entry's level, 1 for the root."""
        if node.uid not in self._levels:
            above = self.get(node.parent_uid) if node.parent_uid else None
            self._levels[node.uid] = 1 if above is None else self.level(above) + 1
        return self._levels[node.uid]

    @property
    def root(self) -> Node:
        node = self.get(self.base.uuid(0))
        assert node is not None, "the root is never removed"  # noqa: S101 - an invariant, not input
        return node

    def lineage(self, node: Node) -> list[Node]:
        """Return the ancestors and the entry itself, root first."""
        lineage = [node]
        while lineage[-1].parent_uid is not None:
            above = self.get(lineage[-1].parent_uid)
            assert above is not None, "an entry's parent is in the tree"  # noqa: S101 - an invariant, not input
            lineage.append(above)
        return lineage[::-1]

    def path(self, node: Node) -> str:
        return "/" + "/".join(step.name for step in self.lineage(node)[1:])

    def status(self, node: Node) -> Status:
        if node.uid not in self.changes:
            return ""
        before = self.changes[node.uid][0]
        if before is None:
            return "added"
        if before.parent_uid != node.parent_uid:
            return "moved"
        is_only_opened = (
            not before.is_group
            and (before.kind, before.shares, before.name)
            == (
                node.kind,
                node.shares,
                node.name,
            )
            and _same_terms(before, node)
        )
        return "" if is_only_opened else "edited"

    def places(self, uid: UUID, mask: Mask | None = None) -> Sequence[Place]:
        """List all children by name; `mask` hides rows of the revision."""
        places = self._all_places(uid)
        return places if mask is None else [each for each in places if each.row is None or mask[each.row]]

    def node_at(self, place: Place) -> Node:
        if place.uid is None and place.row is not None:
            uid = self.base.uuid(place.row)
            if uid not in self.changes and uid not in self._nodes:
                self._nodes[uid] = self.base.node(place.row)
            node = self.get(uid)
            assert node is not None, "a child is in the tree"  # noqa: S101 - an invariant, not input
            return node
        node = self.get(place.uid) if place.uid else None
        assert node is not None, "a child is in the tree"  # noqa: S101 - an invariant, not input
        return node

    def n_children(self, uid: UUID) -> int:
        if uid in self._moved_parents:
            return len(self._all_places(uid))
        i = self.base.index_of_uid(uid)
        return 0 if i is None else int(self.base.n_children[i])

    def _all_places(self, uid: UUID) -> Sequence[Place]:
        if uid not in self._places:
            self._places[uid] = self._merged(uid)
        return self._places[uid]

    def _merged(self, uid: UUID) -> Sequence[Place]:
        i = self.base.index_of_uid(uid)
        rows = range(0) if i is None else self.base.children(i)
        left: set[int] = set()
        joined: list[Place] = []
        for before, after in self._by_parent.get(uid, ()):
            stays = before and after and (before.parent_uid, before.name) == (after.parent_uid, after.name)
            if stays:
                continue
            row = None if before is None else self.base.index_of_uid(before.uid)
            if before is not None and before.parent_uid == uid and row is not None:
                left.add(row)
            if after is not None and after.parent_uid == uid:
                joined.append(Place(after.name, None, after.uid))
        places = [Place(self.base.name[row], row, None) for row in rows if row not in left]
        for place in joined:
            insort(places, place, key=lambda each: each.name)
        return places

    @cached_property
    def _by_parent(self) -> dict[UUID, list[tuple[Node | None, Node | None]]]:
        """Changes by the uid of the parent, both the old and the new one."""
        changes_by_parent: dict[UUID, list[tuple[Node | None, Node | None]]] = {}
        for change in self.changes.values():
            for uid in {node.parent_uid for node in change if node is not None and node.parent_uid is not None}:
                changes_by_parent.setdefault(uid, []).append(change)
        return changes_by_parent

    @cached_property
    def _moved_parents(self) -> set[UUID]:
        """Parents whose children were added, removed, moved or renamed."""
        return {
            uid
            for uid, changes in self._by_parent.items()
            if any(
                not before or not after or (before.parent_uid, before.name) != (after.parent_uid, after.name)
                for before, after in changes
            )
        }

    def target(self, node: Node) -> float | None:
        """Return the entry's fraction of its competitors' shares in the draft; None for the root and where it inherits.

        The children of an entry that inherits compete one level higher.
        """
        if node.parent_uid is None or node.shares is None:
            return None
        return _part(node.shares, self._pool(self._competes_below(node)))

    def target_before(self, uid: UUID) -> float | None:
        """Return the entry's target in the revision; None if it didn't exist."""
        return self._unchanged.target(node) if (node := self.before(uid)) else None

    @cached_property
    def _unchanged(self) -> DraftTree:
        if not self.changes:
            return self
        unchanged = DraftTree(self.base, {})
        unchanged._nodes = self._nodes  # both are of the revision
        return unchanged

    def sum_of(self, uid: UUID) -> Sum:
        """Sum the shares of the children themselves, without those of entries that compete with them."""
        i = self.base.index_of_uid(uid)
        here = range(0) if i is None else self.base.children(i)
        shares = self.base.shares[here.start : here.stop]
        n_inherit = int(np.count_nonzero(self.base.inherit[here.start : here.stop]))
        changes = self._by_parent.get(uid, ())
        if changes:
            # Set to 0 before summing: subtracting from a large sum would leave its rounding error.
            shares = shares.copy()
        added = 0.0
        for before, after in changes:
            if before is not None and before.parent_uid == uid:
                row = self.base.index_of_uid(before.uid)
                assert row is not None, "what was there before is in the revision"  # noqa: S101 - an invariant
                shares[row - here.start] = 0.0
                n_inherit -= before.shares is None
            if after is not None and after.parent_uid == uid:
                added += after.shares or 0.0
                n_inherit += after.shares is None
        return Sum(float(shares.sum()) + added, n_inherit > 0)

    def pool_of(self, uid: UUID) -> float:
        """Return the sum by which the children's shares are divided, including all that compete with them."""
        node = self.get(uid)
        return 0.0 if node is None else self._pool(self._dividing(node))

    def pool_before(self, uid: UUID) -> float:
        """Return the pool in the revision; 0 if the entry didn't exist."""
        return self._unchanged.pool_of(uid)

    def _competes_below(self, node: Node) -> UUID:
        """Return the entry whose target the given entry competes for: the nearest ancestor that doesn't inherit, or the
        root."""
        above = self.get(node.parent_uid) if node.parent_uid else None
        assert above is not None, "every entry but the root has a parent"  # noqa: S101 - an invariant, not input
        return self._dividing(above)

    def _dividing(self, node: Node) -> UUID:
        """Return the entry itself or its nearest ancestor that doesn't inherit, or the root."""
        while node.shares is None and node.parent_uid is not None:
            above = self.get(node.parent_uid)
            assert above is not None, "every entry but the root has a parent"  # noqa: S101 - an invariant, not input
            node = above
        return node.uid

    def _pool(self, uid: UUID) -> float:
        if uid not in self._pools:
            own = self.sum_of(uid)
            below = sum(self._pool(each) for each in self._passing_on(uid)) if own.passes_on else 0.0
            self._pools[uid] = own.total + below
        return self._pools[uid]

    def _passing_on(self, uid: UUID) -> list[UUID]:
        """List the children that inherit."""
        i = self.base.index_of_uid(uid)
        uids: dict[UUID, None] = {}
        if i is not None:
            here = self.base.children(i)
            rows = here.start + np.flatnonzero(self.base.inherit[here.start : here.stop])
            uids = dict.fromkeys(self.base.uuid(row) for row in rows.tolist())
        for before, after in self._by_parent.get(uid, ()):
            if before is not None:
                uids.pop(before.uid, None)
            if after is not None and after.parent_uid == uid and after.shares is None:
                uids[after.uid] = None
        return list(uids)


def _part(shares: float, total: float) -> float:
    return min(shares / total, 1.0) if total > 0 else 0.0


def _same_terms(before: Node, after: Node) -> bool:
    names = ("scope", "scope_sources", "locked", "dates", "members", "mount")
    return all(getattr(before, name) == getattr(after, name) for name in names)
