"""The page of one entry: ancestors, children, siblings and history."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.explain.path import why_unranked
from apps.policies.selectors import last_change, last_revision_with
from apps.policies.settings import PolicySettings
from apps.priorities.moments import LocalOnly, Moment
from apps.priorities.selectors.history import HistoryLine, history_lines
from apps.priorities.selectors.rows import EntryRow, PolicyView, open_view
from apps.priorities.selectors.tree import offset
from apps.priorities.selectors.visible_snapshot import local_only_among, moment_of, require_entry
from apps.priorities.sentences import text_of

_MOST_CHILD_ROWS = 100
_MOST_HISTORY_LINES = 20


@dataclass(frozen=True)
class EntryPage:
    """The entry page. Lists have at most 100 rows; n_children: number of all visible children."""

    policy_slug: str
    policy_name: str
    revision: int
    as_of: datetime | None
    settings: PolicySettings
    entry: EntryRow
    ancestors: list[EntryRow]
    children: list[EntryRow]
    n_children: int
    siblings: list[EntryRow]
    usage: float | None
    history: list[HistoryLine]
    may_change: bool
    why_not: str
    last_changed_revision: int
    next_cursor: str | None = None
    why_unranked: str = ""
    algorithm: dict[str, Any] = field(default_factory=dict)  # of the numbers, with all parameters
    scope: str = "local"  # by which its children are compared
    scope_sources: tuple[str, ...] = ()  # sources that the scope is restricted to
    compared_by: tuple[str, tuple[str, ...]] = ("local", ())  # the scope that the entry itself is compared by
    moment: Moment | None = None  # of the past
    archived_in: int | None = None  # revision that archived the entry, in a view of the past
    local_only: list[LocalOnly] = field(default_factory=list)  # fallbacks that affect it and its children
    earlier_revision: int | None = None  # of the ranks, if the shown revision is not computed yet

    @property
    def has_other_scopes(self) -> bool:
        """Whether it or its children are compared by other usage than all of this site, as everything is by default."""
        own_usage = ("local", ())
        return (self.scope, tuple(self.scope_sources)) != own_usage or self.compared_by != own_usage


def get_entry_page(
    *, policy_slug: str, uid: UUID, actor: Actor, cursor: str | None = None, at: int | datetime | None = None
) -> EntryPage:
    """The page of a visible entry. cursor: first child. at: a revision or an instant of the past."""
    view = open_view(policy_slug=policy_slug, actor=actor, at=at)
    i = require_entry(view, uid)
    entry = view.row(i)
    children = view.visible_children(i)
    siblings = view.visible_children(int(view.tree.parent[i])) if i else [0]
    start = offset(cursor)
    shown = _numbered(view, children, start)
    scope, scope_sources = view.tree.effective_scope(i)
    last = None if view.asked is None else last_revision_with(policy_slug=view.policy.slug, uid=uid)
    return EntryPage(
        policy_slug=view.policy.slug,
        policy_name=view.policy.name,
        revision=view.revision,
        as_of=view.as_of,
        settings=view.settings,
        entry=entry,
        ancestors=view.rows(above for above in view.tree.ancestors(i) if view.visibility.may_see(above)),
        children=shown,
        n_children=len(children),
        siblings=_numbered(view, _around(siblings, i)),
        usage=entry.usage,
        history=history_lines(view, uid, until=view.revision, limit=_MOST_HISTORY_LINES),
        may_change=entry.may_change,
        why_not="" if entry.may_change or view.asked is not None else _why_not(view, i),
        last_changed_revision=last_change(policy=view.policy, uid=uid),
        next_cursor=str(start + _MOST_CHILD_ROWS) if len(children) > start + _MOST_CHILD_ROWS else None,
        why_unranked=_why_unranked(view, i),
        algorithm=view.snapshot.algorithm if view.snapshot else view.settings.algorithm,
        scope=scope,
        scope_sources=scope_sources,
        compared_by=view.tree.effective_scope(max(int(view.tree.parent[i]), 0)),
        moment=moment_of(view),
        archived_in=None if last is None else last + 1,
        local_only=local_only_among(view, [uid, *(row.uid for row in shown)]),
        earlier_revision=view.earlier_revision,
    )


def _why_unranked(view: PolicyView, i: int) -> str:
    at = int(view.snapshot_index[i]) if view.snapshot is not None else -1
    return text_of(why_unranked(view.snapshot, at)) if view.snapshot is not None and at > 0 else ""


def _numbered(view: PolicyView, siblings: list[int], start: int = 0) -> list[EntryRow]:
    shown = siblings[start : start + _MOST_CHILD_ROWS]
    return [view.row(i, position=(at, len(siblings))) for at, i in enumerate(shown, start=start + 1)]


def _around(siblings: list[int], i: int) -> list[int]:
    """At most 100 siblings around the entry, itself included."""
    at = siblings.index(i)
    start = max(0, min(at - _MOST_CHILD_ROWS // 2, len(siblings) - _MOST_CHILD_ROWS))
    return siblings[start : start + _MOST_CHILD_ROWS]


def _why_not(view: PolicyView, i: int) -> str:
    if i == 0:
        return _("The root always has all resources: its shares can't change.")
    if view.tree.locked[i] and view.visibility.may_divide(int(view.tree.parent[i])):
        return _("Locked: only the person who locked it, or an administrator, can change it.")
    parent = view.tree.name[int(view.tree.parent[i])]
    return _("The shares inside %(parent)s are set by its managers.") % {"parent": parent}
