"""Titles of change sets: what their edits do, by the names that the reader may see, with the reason below."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.actor import Actor
from apps.mapping.permissions import load_visibility
from apps.policies.access.scope import Visibility
from apps.policies.changesets.draft_tree import DraftTree
from apps.policies.models import ChangeSet, Entry
from apps.policies.tree.stored import load_tree
from apps.priorities.sentences import numbers
from apps.web.changes.edit_texts import edit_sentence
from apps.web.shell import presentation

# The first edit whose entry the reader may name makes the title; later ones than these aren't tried.
_MOST_TRIED = 8


@dataclass(frozen=True, slots=True)
class ChangeTitle:
    """A change set's title, and its reason in one line: empty where the reason is the title."""

    text: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Version:
    """An entry as it was from a revision on."""

    since: int
    name: str
    shares: float | None
    parent: UUID | None


def title_of(change_set: ChangeSet, *, actor: Actor, at: datetime) -> ChangeTitle:
    return titles_of([change_set], actor=actor, at=at)[change_set.pk]


def title_in_editor(draft: ChangeSet, *, tree: DraftTree, sees: Visibility, actor: Actor, at: datetime) -> ChangeTitle:
    """As `title_of`, from the tree and the view that the editor has in memory: each edit asks for it."""
    return _title(draft, _NamesInEditor(draft, tree, sees, actor, at))


def titles_of(
    change_sets: Sequence[ChangeSet], *, actor: Actor, at: datetime, sees: Visibility | None = None
) -> dict[int, ChangeTitle]:
    """By primary key. The caller checks that the actor may see the change sets.

    sees: what the actor sees of the one policy of all, where that is known.
    """
    if not change_sets:
        return {}
    names = _Names(change_sets, actor, at)
    if sees is not None:
        names.sees[change_sets[0].policy_id] = sees
    return {each.pk: _title(each, names) for each in change_sets}


def _title(change_set: ChangeSet, names: _Names) -> ChangeTitle:
    reason = presentation.first_line(change_set.reason)
    for operation in change_set.operations[:_MOST_TRIED]:
        edit = presentation.first_line(names.sentence(change_set, operation))
        if edit:
            n_more = len(change_set.operations) - 1
            text = ngettext("%(edit)s and %(n)s more edit", "%(edit)s and %(n)s more edits", n_more)
            return ChangeTitle(text % {"edit": edit, "n": numbers.count(n_more)} if n_more else edit, reason)
    number = _("Draft %(n)s") if change_set.state == ChangeSet.State.DRAFT else _("Change set %(n)s")
    return ChangeTitle(reason or number % {"n": change_set.pk})


class _Names:
    """Names and shares of the entries that change sets edit, each at the base of its change set: by one query."""

    def __init__(self, change_sets: Sequence[ChangeSet], actor: Actor, at: datetime) -> None:
        self._change_sets, self._actor, self._at = change_sets, actor, at
        self.sees: dict[int, Visibility] = {}

    @cached_property
    def _versions(self) -> dict[tuple[int, UUID], list[_Version]]:
        """By policy and entry, oldest first."""
        uids = {uid for each in self._change_sets for operation in _tried(each) for uid in _uids_in(operation)}
        policies = {each.policy_id for each in self._change_sets}
        rows = Entry.objects.filter(policy__in=policies, uid__in=uids).order_by("since")
        found = defaultdict(list)
        for each in rows.only("policy_id", "uid", "since", "name", "shares", "parent_uid"):
            found[each.policy_id, each.uid].append(_Version(each.since, each.name, each.shares, each.parent_uid))
        return found

    def sentence(self, change_set: ChangeSet, operation: Mapping[str, Any]) -> str:
        """What one edit does; empty if it concerns an entry that the actor may not name."""
        op = operation["op"]
        if op in ("set_policy", "document"):
            return edit_sentence(operation, "", "", str)
        parent = self._name(change_set, operation.get("parent"))
        if op == "add":
            adds = bool(parent) and self._names_below(change_set, operation["parent"])
            return edit_sentence(operation, str(operation["name"]), parent, str) if adds else ""
        name = self._name(change_set, operation.get("entry"))
        if not name or (operation.get("parent") and not parent):
            return ""
        shares = operation.get("shares")
        if op == "set_shares" and isinstance(shares, int | float):
            values = {"before": self._shares_before(change_set, operation["entry"]), "after": shares}
            words = {side: presentation.shares_short(value) for side, value in values.items()}
            return _("%(name)s %(before)s → %(after)s shares") % {"name": name, **words}
        return edit_sentence(
            operation, name, parent, lambda uid: self._name(change_set, uid) or _("an entry outside your view")
        )

    def _shares_before(self, change_set: ChangeSet, uid: Any) -> float | None:
        version = self._version(change_set, uid)
        return None if version is None else version.shares

    def _name(self, change_set: ChangeSet, uid: Any) -> str:
        """The entry's name at the base; empty if there is none, or the actor may not see it."""
        version = self._version(change_set, uid)
        return version.name if version is not None and self._may_name(change_set, uid, version) else ""

    def _version(self, change_set: ChangeSet, uid: Any) -> _Version | None:
        key = _uuid(uid)
        versions = [] if key is None else self._versions.get((change_set.policy_id, key), [])
        return next((each for each in reversed(versions) if each.since <= change_set.base_number), None)

    def _may_name(self, change_set: ChangeSet, uid: Any, version: _Version) -> bool:
        """Whether the actor sees the entry, or all below its last parent if it has left the tree."""
        sees = self._visibility(change_set)
        i = sees.tree.index_of_uid(UUID(str(uid)))
        return sees.may_see(i) if i is not None else self._names_below(change_set, version.parent)

    def _names_below(self, change_set: ChangeSet, uid: Any) -> bool:
        sees, key = self._visibility(change_set), _uuid(uid)
        i = None if key is None else sees.tree.index_of_uid(key)
        return sees.all_visible or (i is not None and sees.may_name_below(i))

    def _visibility(self, change_set: ChangeSet) -> Visibility:
        if change_set.policy_id not in self.sees:
            policy = change_set.policy
            tree = load_tree(policy)
            self.sees[policy.pk] = load_visibility(policy=policy, tree=tree, at=self._at, actor=self._actor)
        return self.sees[change_set.policy_id]


class _NamesInEditor(_Names):
    """Names and shares of the draft's base tree; what it doesn't have, as archived entries, by the query."""

    def __init__(self, draft: ChangeSet, tree: DraftTree, sees: Visibility, actor: Actor, at: datetime) -> None:
        super().__init__([draft], actor, at)
        self._tree = tree
        self.sees[draft.policy_id] = sees

    def _version(self, change_set: ChangeSet, uid: Any) -> _Version | None:
        key = _uuid(uid)
        node = None if key is None else self._tree.before(key)
        if node is None:
            return super()._version(change_set, uid)
        return _Version(change_set.base_number, node.name, node.shares, node.parent_uid)


def _tried(change_set: ChangeSet) -> list[Mapping[str, Any]]:
    return list(change_set.operations[:_MOST_TRIED])


def _uids_in(operation: Mapping[str, Any]) -> Iterator[UUID]:
    """The entries that an operation names."""
    shares = operation.get("shares")
    source = shares.get("from") if isinstance(shares, Mapping) else None
    for named in (operation.get("entry"), operation.get("parent"), *(source if isinstance(source, list) else ())):
        if (uid := _uuid(named)) is not None:
            yield uid


def _uuid(text: Any) -> UUID | None:
    try:
        return UUID(str(text))
    except ValueError:
        return None
