"""What services need to know of a change set: whose it is, what it leads to on today's head, what it would do."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from apps.accounts.actor import Actor
from apps.errors import Conflict, FieldProblem, Invalid, NotFound, Stale
from apps.policies.columns import TreeColumns
from apps.policies.conflicts import EditConflict, conflicts
from apps.policies.models import ChangeSet, Grant, Policy, Revision
from apps.policies.names import clean_text
from apps.policies.operations import Outcome, work_out
from apps.policies.scope import ActorGuard, granted_uids, require_policy, require_scope, rules_all, visible_entries
from apps.policies.settings import PolicySettings
from apps.policies.trees import load_archived, load_tree

_LONGEST_REASON = 4_000


def get_change_set_for_write(id: int, actor: Actor, at: datetime, *, version: int) -> ChangeSet:
    """The change set, locked, if the actor may decide about it, in the version that the actor has seen."""
    require_scope(actor, "policies:write")
    change_set = ChangeSet.objects.select_for_update(of=("self",)).select_related("policy").filter(pk=id).first()
    missing = NotFound(f"There is no change set {id}.")
    if change_set is None:
        raise missing
    try:
        require_policy(actor, change_set.policy.slug)
    except NotFound:
        raise missing from None
    if not may_see_change_set(change_set, actor, at):
        raise missing
    if change_set.state == ChangeSet.State.PUBLISHED:
        number = Revision.objects.filter(change_set=change_set).values_list("number", flat=True).first()
        raise Conflict(f"Change set {id} is in force already, as revision {number}.", code="already_published")
    if change_set.state == ChangeSet.State.WITHDRAWN:
        raise Conflict(f"Change set {id} was withdrawn: make another one.", code="withdrawn")
    if change_set.version != version:
        raise Stale(f"Change set {id} is at version {change_set.version}, you saw {version}: load it again.")
    return change_set


def may_see_change_set(change_set: ChangeSet, actor: Actor, at: datetime) -> bool:
    """Its author, administrators, and the authorities over what it touches, who may have to decide.

    Through a token of one subtree only what touches that subtree.
    """
    bound = actor.token.subtree_uid if actor.token is not None else None
    if bound is not None and not _touches(change_set, {bound}):
        return False
    if rules_all(actor, "policies:read") or rules_all(actor):
        return True
    if actor.user is not None and change_set.author_id == actor.user.pk:
        return True
    return _touches(change_set, granted_uids(change_set.policy, actor, at, Grant.Role.AUTHORITY))


def _touches(change_set: ChangeSet, roots: set[UUID]) -> bool:
    """Whether an entry that the operations name lies at or below one of these; settings belong to the root."""
    if not roots:
        return False
    tree = load_tree(change_set.policy, change_set.base_number or None)
    named = [operation.get(key) for operation in change_set.operations for key in ("entry", "parent")]
    known = {i for uid in named if isinstance(uid, str) and (i := tree.index_of_uid(UUID(uid))) is not None}
    return any(tree.uuid(step) in roots for i in known or {0} for step in (*tree.ancestors(i), i))


def settings_of(policy: Policy, number: int) -> PolicySettings:
    stored = Revision.objects.filter(policy=policy, number=number).values_list("settings", flat=True).get()
    return PolicySettings.from_json(stored)


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
    head_settings = settings_of(policy, policy.head_number)
    if change_set.base_number != policy.head_number:
        found = conflicts(
            load_tree(policy, change_set.base_number), head, change_set.operations,
            base_settings=settings_of(policy, change_set.base_number), head_settings=head_settings, archived=archived,
        )  # fmt: skip
        if found:
            seen = visible_entries(policy=policy, tree=head, actor=actor, at=at)
            shown = [c for c in found if c.entry is None or _sees(seen.mask, head, c.entry)]
            raise EditConflict(shown or found[:1], base_number=change_set.base_number, head_number=policy.head_number)
    guard = ActorGuard(policy=policy, tree=head, actor=actor, at=at)
    return work_out(head, change_set.operations, settings=head_settings, guard=guard, archived=archived)


def _sees(mask: Any, tree: TreeColumns, uid: Any) -> bool:
    i = tree.index_of_uid(uid)
    return i is None or bool(mask[i])
