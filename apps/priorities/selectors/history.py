"""History of an entry by revision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from apps.accounts.actor import Actor
from apps.core.errors import NotFound
from apps.policies.changesets.change_sets import ChangeSetAccess
from apps.policies.models import ChangeSet, Entry, Policy
from apps.policies.publishing.revert import revisions_reverted
from apps.policies.selectors import EntryChange, entry_history, last_revision_with
from apps.policies.tree.revision_diff import FieldChange
from apps.priorities.selectors.rows import PolicyView, open_view

PLACE = "parent"
_PAGE = 50


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """Changes of an entry by one revision. A move has the names of both parents; None for a hidden one."""

    revision: int
    at: datetime
    author: str
    reason: str
    change_set: int
    origin: str
    fields: list[FieldChange]
    reverted_by: int | None
    may_see_change_set: bool


@dataclass(frozen=True)
class EntryHistory:
    """History of an entry, newest first. next_before: cursor of older changes."""

    policy: Policy
    uid: UUID
    name: str
    is_archived: bool
    lines: list[HistoryLine]
    next_before: int | None


def get_entry_history(*, policy_slug: str, uid: UUID, before: int | None, actor: Actor) -> EntryHistory:
    """History of an entry that the actor may see, in its last revision if it is archived."""
    view = open_view(policy_slug=policy_slug, actor=actor, is_past=True)
    i, is_archived = view.tree.index_of_uid(uid), False
    if i is None:
        last = last_revision_with(policy_slug=view.policy.slug, uid=uid)
        if last is None:
            raise NotFound("There is no such entry in this policy.")
        view, is_archived = open_view(policy_slug=policy_slug, actor=actor, at=last), True
        i = view.tree.index_of_uid(uid)
    name = view.tree.name[view.visibility.require(i)]
    until = None if before is None else before - 1
    lines = history_lines(view, uid, until=until, limit=_PAGE + 1)
    older = lines[_PAGE - 1].revision if len(lines) > _PAGE else None
    return EntryHistory(view.policy, uid, name, is_archived, lines[:_PAGE], older)


def history_lines(view: PolicyView, uid: UUID, *, until: int | None, limit: int) -> list[HistoryLine]:
    """Changes of an entry. The caller checks that it may be seen."""
    changes = entry_history(policy=view.policy, uid=uid, limit=limit, until=until)
    names = _Names(view, changes)
    undone = revisions_reverted(view.policy, [change.revision for change in changes])
    access = ChangeSetAccess(view.policy, view.actor, view.now)
    change_sets = ChangeSet.objects.filter(pk__in=[change.change_set for change in changes])
    seen = {change_set.pk for change_set in change_sets if access.may_see(change_set)}
    return [
        HistoryLine(
            revision=change.revision,
            at=change.at,
            author=change.author,
            reason=change.reason,
            change_set=change.change_set,
            origin=change.origin,
            fields=list(names.fields_of(change)),
            reverted_by=undone.get(change.revision),
            may_see_change_set=change.change_set in seen,
        )
        for change in changes
    ]


class _Names:
    """Names of parents at the time of a move; None for hidden ones."""

    def __init__(self, view: PolicyView, changes: Sequence[EntryChange]) -> None:
        self._view = view
        moves = [both for change in changes for field, *both in change.fields if field == "parent_uid"]
        uids = {UUID(uid) for both in moves for uid in both if uid}
        rows = Entry.objects.filter(policy=view.policy, uid__in=uids).order_by("since")
        self._versions: dict[UUID, list[tuple[int, str]]] = {}
        for row in rows.values_list("uid", "since", "name"):
            self._versions.setdefault(row[0], []).append((row[1], row[2]))

    def fields_of(self, change: EntryChange) -> Iterable[FieldChange]:
        for field, before, after in change.fields:
            if field == "parent_uid":
                before, after = self._name(before, change.revision - 1), self._name(after, change.revision)
            yield FieldChange(PLACE if field == "parent_uid" else field, before, after)

    def _name(self, uid: str | None, number: int) -> str | None:
        if uid is None:
            return None
        i, sees = self._view.tree.index_of_uid(UUID(uid)), self._view.visibility
        if not (sees.all_visible if i is None else sees.may_see(i)):
            return None
        names = [name for since, name in self._versions.get(UUID(uid), ()) if since <= number]
        return names[-1] if names else None
