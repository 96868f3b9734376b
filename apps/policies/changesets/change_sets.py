"""What services need to know of a change set: whose it is, what it leads to on today's head, what it would do."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from apps.accounts.actor import Actor
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed, NotFound, Stale
from apps.policies.access.authority import ActorGuard
from apps.policies.access.scope import (
    Rights,
    Verb,
    Visibility,
    require_policy,
    require_scope,
    rules_all,
    visible_entries,
)
from apps.policies.changesets.account_moves import refuse_account_moves
from apps.policies.changesets.conflict_visibility import refuse_hidden, shown_conflicts
from apps.policies.changesets.conflicts import EditConflict, FieldConflict, conflicts
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.operations.apply import Outcome, work_out
from apps.policies.operations.whole_trees import document_outcome, is_document
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import clean_text
from apps.policies.tree.stored import load_archived, load_tree
from apps.policies.tree.working_tree import WorkingTree

_LONGEST_REASON = 4_000
_DECIDE = (Verb.EDIT_SHARES, Verb.EDIT_STRUCTURE, Verb.APPROVE)


class ChangeSetAccess:
    """Which change sets of one policy an actor may see: the tree and the grants are asked once, not for each."""

    def __init__(self, policy: Policy, actor: Actor, at: datetime) -> None:
        self._policy, self._actor, self._at = policy, actor, at

    def is_of(self, change_set: ChangeSet) -> bool:
        """Its author, and who rules the whole policy."""
        mine = self._actor.user is not None and change_set.author_id == self._actor.user.pk
        return mine or self._rules

    def may_see(self, change_set: ChangeSet) -> bool:
        """Also authorities, who may have to decide: once it is no draft any more, and if they see all it names."""
        if self.is_of(change_set):
            return True
        return change_set.state != ChangeSet.State.DRAFT and self._has_authority and self._sees_all(change_set)

    @cached_property
    def _rules(self) -> bool:
        whole = self._actor.token is None or self._actor.token.subtree_uid is None
        return whole and (rules_all(self._actor, "policies:read") or rules_all(self._actor))

    @cached_property
    def _has_authority(self) -> bool:
        return rules_all(self._actor) or bool(Rights(self._policy, self._actor, self._at).at(*_DECIDE))

    @cached_property
    def _shapes_all(self) -> bool:
        """Who shapes the whole tree decides about settings too."""
        whole = self._actor.token is None or self._actor.token.subtree_uid is None
        root = load_tree(self._policy).uuid(0)
        rights = Rights(self._policy, self._actor, self._at)
        return whole and (rules_all(self._actor) or root in rights.at(Verb.EDIT_STRUCTURE, Verb.APPROVE))

    @cached_property
    def _visible(self) -> Visibility:
        tree = load_tree(self._policy)
        return visible_entries(policy=self._policy, tree=tree, actor=self._actor, at=self._at)

    def _sees_all(self, change_set: ChangeSet) -> bool:
        for operation in change_set.operations:
            for key in ("entry", "parent"):
                if key in operation and not self._sees(operation[key]):
                    return False
        if change_set.origin == ChangeSet.Origin.MOUNT and (uid := change_set.operations[0].get("mount")):
            return self._sees(uid)
        about_all = any(operation["op"] in ("set_policy", "document") for operation in change_set.operations)
        return not about_all or self._shapes_all

    def _sees(self, uid: str) -> bool:
        i = self._visible.tree.index_of_uid(UUID(uid))
        return i is not None and self._visible.may_see(i)


def get_change_set_for_write(
    id: int, actor: Actor, at: datetime, *, version: int, to_publish: bool = False
) -> ChangeSet:
    """The change set, locked, if it is the actor's (or theirs to publish), in the version that the actor has seen."""
    require_scope(actor, "policies:write")
    change_set = ChangeSet.objects.select_for_update(of=("self",)).select_related("policy").filter(pk=id).first()
    if change_set is None:
        raise missing_change_set(id)
    require_visible(change_set, actor, at)
    if not to_publish and not ChangeSetAccess(change_set.policy, actor, at).is_of(change_set):
        raise NotAllowed(f"Change set {id} belongs to another person: publish it, or create your own.")
    if change_set.state == ChangeSet.State.PUBLISHED:
        number = Revision.objects.filter(change_set=change_set).values_list("number", flat=True).first()
        raise Conflict(f"Change set {id} is published already, as revision {number}.", code="already_published")
    if change_set.state == ChangeSet.State.WITHDRAWN:
        raise Conflict(f"Change set {id} was withdrawn: make another one.", code="withdrawn")
    if change_set.version != version:
        raise Stale(f"Change set {id} is at version {change_set.version}, you saw {version}: load it again.")
    return change_set


def require_visible(change_set: ChangeSet, actor: Actor, at: datetime) -> None:
    """A change set that the actor may not see is answered as one that doesn't exist."""
    try:
        require_policy(actor, change_set.policy.slug)
    except NotFound:
        raise missing_change_set(change_set.pk) from None
    if not ChangeSetAccess(change_set.policy, actor, at).may_see(change_set):
        raise missing_change_set(change_set.pk)


def missing_change_set(id: int) -> NotFound:
    return NotFound(f"There is no change set {id}.")


def settings_of(policy: Policy, number: int) -> PolicySettings:
    stored = Revision.objects.filter(policy=policy, number=number).values_list("settings", flat=True).get()
    return PolicySettings.from_stored(stored)


def require_reason(reason: str) -> str:
    """What is published says why."""
    text = clean_reason(reason)
    if not text:
        problem = FieldProblem("reason", f"must say why, in 1 to {_LONGEST_REASON} characters")
        raise Invalid(f"reason {problem.message}.", code="reason_missing", fields=[problem])
    return text


def clean_reason(reason: str) -> str:
    """A draft may still lack one."""
    try:
        return clean_text(reason, _LONGEST_REASON).strip()
    except ValueError as error:
        raise Invalid(f"reason {error}.", fields=[FieldProblem("reason", str(error))]) from None


def merged_outcome(change_set: ChangeSet, policy: Policy, actor: Actor, at: datetime) -> Outcome:
    """What it leads to on the head, each operation authorised anew; EditConflict where both sides changed."""

    def archived(uid: Any) -> Any:
        return load_archived(policy, uid)

    head = load_tree(policy)
    guard = ActorGuard(policy=policy, tree=head, actor=actor, at=at, besides=(Verb.PUBLISH,))
    if is_document(change_set):
        _require_document(guard, change_set, head)
        outcome = document_outcome(change_set, policy, head, policy.head_number)
        refuse_account_moves(outcome, policy=policy, actor=actor, at=at)
        return outcome
    head_settings = settings_of(policy, policy.head_number)

    def work() -> Outcome:
        return work_out(head, change_set.operations, settings=head_settings, guard=guard, archived=archived)

    if change_set.base_number != policy.head_number:
        found = conflicts_with_head(change_set, policy)
        if found:
            base = load_tree(policy, change_set.base_number)
            shown = shown_conflicts(found, policy=policy, base=base, head=head, actor=actor, at=at)
            refuse_hidden(shown, work)
            raise EditConflict(shown, base_number=change_set.base_number, head_number=policy.head_number)
    outcome = work()
    refuse_account_moves(outcome, policy=policy, actor=actor, at=at)
    return outcome


def _require_document(guard: ActorGuard, change_set: ChangeSet, head: TreeColumns) -> None:
    """A whole tree is for who shapes all of it; one that a mount's document asks for, for who mounts there."""
    uid = change_set.operations[0].get("mount") if change_set.origin == ChangeSet.Origin.MOUNT else None
    if uid is None:
        guard.may_set_policy(0)
        return
    tree = WorkingTree(head)
    mount = tree.get(UUID(uid))
    if mount is None or mount.mount is None:
        raise Conflict("What is mounted there has been unmounted since.", code="mount_gone")
    guard.may_change(tree, mount, 0, Verb.MOUNT)


def conflicts_with_head(change_set: ChangeSet, policy: Policy) -> list[FieldConflict]:
    """Where it and the head both changed something since its base, unfiltered by rights."""
    return conflicts(
        load_tree(policy, change_set.base_number),
        load_tree(policy),
        change_set.operations,
        base_settings=settings_of(policy, change_set.base_number),
        head_settings=settings_of(policy, policy.head_number),
        archived=lambda uid: load_archived(policy, uid),
        archived_at_base=lambda uid: load_archived(policy, uid, change_set.base_number),
    )
