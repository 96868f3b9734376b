"""The tree of a draft for its pages: entries before and after the draft, with current usage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

import numpy as np

from apps.accounts.actor import Actor
from apps.core.errors import NotFound
from apps.mapping.permissions import load_visibility
from apps.policies.access.scope import Visibility
from apps.policies.changesets.change_sets import settings_of
from apps.policies.changesets.draft_tree import DraftTree, Place, Status
from apps.policies.changesets.drafts import check_operations, may_publish
from apps.policies.models import ChangeSet, Policy
from apps.policies.operations.apply import Outcome
from apps.policies.selectors import get_change_set
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import Mask, Node, TreeColumns
from apps.priorities.selectors.rows import newest_or_none
from apps.priorities.selectors.tree import MOST_TREE_MATCHES, MOST_TREE_ROWS, PAGE, WINDOW, MoreRow, offset
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.visible_entries import numbers_visible_in

_SAME = 1e-12


@dataclass(frozen=True, slots=True)
class DraftRow:
    """One entry of a draft. Fractions 0..1; None where something doesn't exist. before: None for a new entry."""

    node: Node
    before: Node | None
    level: int  # 1 is the root
    pos_in_set: int
    set_size: int
    n_children: int
    is_open: bool
    target: float | None
    target_before: float | None
    actual: float | None
    has_usage: bool
    status: Status
    may_change: bool
    may_divide: bool

    @property
    def is_shifted(self) -> bool:
        """Whether its target changes only because siblings change."""
        return not self.status and not _same(self.target, self.target_before)

    @property
    def stays(self) -> bool:
        """Whether it was below the same entry in the revision."""
        return self.before is not None and self.before.parent_uid == self.node.parent_uid


@dataclass(frozen=True)
class DraftPage:
    """The draft page: rows in display order, with settings and counts."""

    draft: ChangeSet
    settings: PolicySettings
    settings_before: PolicySettings
    head_number: int
    as_of: datetime | None
    n_entries: int
    rows: list[DraftRow]
    more: list[MoreRow]
    opened: frozenset[UUID]
    query: str = ""
    n_matches: int = 0


@dataclass
class DraftView:
    """A draft as one actor sees it. outcome: tree and settings with the operations applied.

    granted: what grants show of the base; attached accounts are looked for only if that isn't everything.
    """

    draft: ChangeSet
    actor: Actor
    at: datetime
    outcome: Outcome
    granted: Visibility
    _rows: dict[UUID, DraftRow] = field(default_factory=dict)

    @cached_property
    def policy(self) -> Policy:
        return self.draft.policy

    @property
    def base(self) -> TreeColumns:
        return self.outcome.base

    @cached_property
    def may_publish(self) -> bool:
        return may_publish(self.draft, self.actor, self.at)

    @cached_property
    def settings_before(self) -> PolicySettings:
        return settings_of(self.policy, self.draft.base_number)

    @cached_property
    def tree(self) -> DraftTree:
        return DraftTree(self.base, self.outcome.changes)

    @cached_property
    def visibility(self) -> Visibility:
        if self.granted.all_visible:
            return self.granted
        return load_visibility(policy=self.policy, tree=self.base, actor=self.actor, at=self.at)

    @cached_property
    def mask(self) -> Mask | None:
        return None if self.visibility.all_visible else self.visibility.mask

    @cached_property
    def snapshot(self) -> ServedSnapshot | None:
        return newest_or_none(self.policy.slug)

    @cached_property
    def shows_numbers(self) -> Mask:
        """Mask of entries of the snapshot whose numbers the actor may see."""
        if self.snapshot is None:
            return np.zeros(0, dtype=np.bool_)
        if self.actor.user is None or (self.visibility.all_visible and self.visibility.outright.all()):
            return np.ones(len(self.snapshot.tree), dtype=np.bool_)
        return numbers_visible_in(policy=self.policy, snapshot=self.snapshot, at=self.at, actor=self.actor)

    def places(self, uid: UUID) -> Sequence[Place]:
        return self.tree.places(uid, self.mask)

    def require(self, uid: UUID) -> Node:
        """The entry in the draft; NotFound if it is hidden, or archived by the draft."""
        node = self.tree.get(uid)
        if node is None or not self.sees(node):
            raise NotFound("There is no such entry in this draft.")
        return node

    def sees(self, node: Node) -> bool:
        i = self._in_base(node)
        return i is not None and self.visibility.may_see(i)

    def sees_before(self, node: Node) -> bool:
        """Whether the actor sees an entry that the draft archives."""
        i = self.base.index_of_uid(node.uid)
        return i is not None and self.visibility.may_see(i)

    def _in_base(self, node: Node) -> int | None:
        """Index in the base revision of the entry or its nearest ancestor there."""
        step: Node | None = node
        while step is not None:
            i = self.base.index_of_uid(step.uid)
            if i is not None:
                return i
            step = self.tree.get(step.parent_uid) if step.parent_uid else None
        return None

    def may_divide(self, node: Node) -> bool:
        i = self._in_base(node)
        return i is not None and self.visibility.may_divide(i) and node.kind != "reserve"

    def may_change(self, node: Node) -> bool:
        """Whether the actor may change its shares, name and parent."""
        i = self.base.index_of_uid(node.uid)
        if i is not None:
            return self.visibility.may_change(i)
        above = self.tree.get(node.parent_uid) if node.parent_uid else None
        return above is not None and self.may_divide(above)

    def row(self, node: Node, *, position: tuple[int, int] | None = None, is_open: bool = False) -> DraftRow:
        if position is None:
            position = self._position(node)
        if node.uid not in self._rows:
            self._rows[node.uid] = self._make_row(node)
        return replace(self._rows[node.uid], pos_in_set=position[0], set_size=position[1], is_open=is_open)

    def _make_row(self, node: Node) -> DraftRow:
        actual, has_usage = self._usage(node)
        n_children = self.tree.n_children(node.uid)
        if n_children and self.mask is not None:
            n_children = len(self.places(node.uid))
        return DraftRow(
            node=node,
            before=self.tree.changes[node.uid][0] if node.uid in self.tree.changes else node,
            level=self.tree.level(node),
            pos_in_set=1,
            set_size=1,
            n_children=n_children,
            is_open=False,
            target=self.tree.target(node),
            target_before=self.tree.target_before(node.uid),
            actual=actual,
            has_usage=has_usage,
            status=self.tree.status(node),
            may_change=self.may_change(node),
            may_divide=self.may_divide(node),
        )

    def siblings(self, node: Node) -> list[DraftRow]:
        """The entry and its siblings, at most PAGE; the entry itself is always included."""
        if node.parent_uid is None:
            return [self.row(node, position=(1, 1))]
        places = self.places(node.parent_uid)
        shown = [self.row(self.tree.node_at(p), position=(k, len(places))) for k, p in enumerate(places[:PAGE], 1)]
        if all(row.node.uid != node.uid for row in shown):
            shown.append(self.row(node))
        return shown

    def _position(self, node: Node) -> tuple[int, int]:
        if node.parent_uid is None:
            return 1, 1
        places = self.places(node.parent_uid)
        names = [place.name for place in places]
        return (names.index(node.name) + 1 if node.name in names else 1), max(len(names), 1)

    def _usage(self, node: Node) -> tuple[float | None, bool]:
        if self.snapshot is None:
            return None, False
        at = self.snapshot.tree.index_of_uid(node.uid)
        if at is None:
            return (1.0, True) if node.parent_uid is None else (None, False)
        if not self.shows_numbers[at]:
            return None, False
        values = self.snapshot.values
        if node.parent_uid is None:
            return 1.0, True
        used = bool(values.usage[at] > 0 or values.has_demand[at])
        return (float(values.actual[at]) if values.competes[at] else None), used


@dataclass
class _Rows:
    """Collects rows of the page, depth first."""

    view: DraftView
    opened: frozenset[UUID]
    only: frozenset[UUID] | None = None
    rows: list[DraftRow] = field(default_factory=list)
    more: list[MoreRow] = field(default_factory=list)

    def add_root(self) -> None:
        root = self.view.tree.root
        if not self.view.sees(root):
            return
        is_open = root.uid in self.opened
        self.rows.append(self.view.row(root, position=(1, 1), is_open=is_open))
        if is_open:
            self.add_children(root.uid, 2)

    def add_children(self, parent: UUID, level: int, start: int = 0) -> None:
        waiting = self._group(parent, level, start)
        while waiting and len(self.rows) < MOST_TREE_ROWS:
            node, position, depth = waiting.pop()
            is_open = node.uid in self.opened and self.view.tree.n_children(node.uid) > 0
            self.rows.append(self.view.row(node, position=position, is_open=is_open))
            if is_open:
                waiting += self._group(node.uid, depth + 1, 0)

    def _group(self, parent: UUID, level: int, start: int) -> list[tuple[Node, tuple[int, int], int]]:
        places = self.view.places(parent)
        if self.only is None:
            shown = list(enumerate(places[start : start + WINDOW], start=start + 1))
            rest = len(places) - start - WINDOW
        else:
            kept = [(k, p) for k, p in enumerate(places, 1) if self.view.tree.node_at(p).uid in self.only]
            shown, rest = kept[start : start + WINDOW], len(kept) - start - WINDOW
        if rest > 0:
            self.more.append(MoreRow(parent, level, str(start + WINDOW), rest))
        return [(self.view.tree.node_at(p), (k, len(places)), level) for k, p in reversed(shown)]


def open_draft_view(
    *, change_set_id: int, at: datetime, actor: Actor, more: Sequence[dict[str, Any]] = ()
) -> DraftView:
    """Open a draft, for its author and managers of the policy; NotFound for others.

    more: additional operations, applied last and not stored.
    """
    draft = get_change_set(id=change_set_id, actor=actor, at=at)
    return DraftView(draft, actor, at, *check_operations(draft, [*draft.operations, *more], actor, at))


def get_draft_page(
    view: DraftView,
    *,
    open_uids: Sequence[UUID] = (),
    shown_uids: Sequence[UUID] = (),
    query: str = "",
    parent_uid: UUID | None = None,
    cursor: str | None = None,
) -> DraftPage:
    """The draft page. A new page expands the upper levels, and shown_uids. parent_uid: only children of this entry."""
    n_matches = 0
    if parent_uid is not None:
        parent = view.require(parent_uid)
        page = _Rows(view, frozenset())
        page.add_children(parent.uid, len(view.tree.lineage(parent)) + 1, offset(cursor))
    else:
        only = None
        if query.strip():
            matches = find_entries(view, query)
            n_matches = len(matches)
            paths = [view.tree.lineage(node) for node in matches[:MOST_TREE_MATCHES]]
            only = frozenset(step.uid for path in paths for step in path)
            opened = frozenset(step.uid for path in paths for step in path[:-1])
        else:
            opened = (_opened(view, open_uids) if open_uids else _opened_by_level(view)) | frozenset(shown_uids)
        page = _Rows(view, opened, only)
        page.add_root()
    return DraftPage(
        draft=view.draft,
        settings=view.outcome.settings,
        settings_before=view.settings_before,
        head_number=view.policy.head_number,
        as_of=view.snapshot.as_of if view.snapshot else None,
        n_entries=len(view.base) + sum((a is not None) - (b is not None) for b, a in view.tree.changes.values()),
        rows=page.rows,
        more=page.more,
        opened=page.opened,
        query=query,
        n_matches=n_matches,
    )


def find_entries(view: DraftView, query: str, *, most: int = MOST_TREE_MATCHES) -> list[Node]:
    """Visible entries whose name contains the text, or the entry at a path."""
    wanted = query.strip().casefold()
    if not wanted:
        return []
    nodes: list[Node] = []
    if wanted.startswith("/"):
        node = _by_path(view, query.strip())
        return [node] if node is not None and view.sees(node) else []
    for i, name in enumerate(view.base.name):
        if i and wanted in name.casefold() and view.visibility.mask[i]:
            uid = view.base.uuid(i)
            if uid not in view.tree.changes:
                nodes.append(view.base.node(i))
            if len(nodes) >= most:
                break
    changed = [after for _, after in view.tree.changes.values() if after is not None]
    return nodes + [node for node in changed if wanted in node.name.casefold() and view.sees(node)]


def _by_path(view: DraftView, path: str) -> Node | None:
    node = view.tree.root
    for name in path.strip("/").split("/") if path.strip("/") else ():
        place = next((p for p in view.places(node.uid) if p.name == name), None)
        if place is None:
            return None
        node = view.tree.node_at(place)
    return node


def _opened(view: DraftView, uids: Iterable[UUID]) -> frozenset[UUID]:
    """These entries and their ancestors; unknown and hidden ones are skipped."""
    opened = {view.tree.root.uid}
    for uid in uids:
        node = view.tree.get(uid)
        if node is not None and view.sees(node):
            opened.update(step.uid for step in view.tree.lineage(node))
    return frozenset(opened)


def _opened_by_level(view: DraftView) -> frozenset[UUID]:
    """Entries to expand breadth-first until the page is full; always the root."""
    root = view.tree.root.uid
    opened, level, n_rows = {root}, [root], 1
    while level:
        below: list[UUID] = []
        for uid in level:
            places = view.places(uid)[:WINDOW]
            if not places:
                continue
            if uid != root and n_rows + len(places) > WINDOW:
                return frozenset(opened)
            opened.add(uid)
            n_rows += len(places)
            below += [view.tree.node_at(place).uid for place in places]
        level = below
    return frozenset(opened)


def _same(left: float | None, right: float | None) -> bool:
    if left is None or right is None:
        return left is right
    return abs(left - right) <= _SAME
