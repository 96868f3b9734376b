"""Drafts: change sets that their author edits operation by operation, with undo and redo.

Every write names the version that it is based on. Undone operations are stored until the next edit. A draft that nobody
touches stays without an end and locks nothing; `quotas` limits how many a person keeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from apps.accounts.actor import Actor
from apps.accounts.audit_log import record
from apps.core.errors import Conflict, DomainError, FieldProblem, Invalid, NotAllowed, NotFound
from apps.core.typed_numbers import read_whole
from apps.engine.algorithms import get_algorithm, package_of
from apps.engine.errors import BadParameter
from apps.policies.access.authority import ActorGuard
from apps.policies.access.scope import Verb, Visibility, administers_policies, visible_entries
from apps.policies.changesets.change_sets import (
    clean_reason,
    get_change_set_for_write,
    load_revision,
    reanchor,
    refuse_account_moves,
    replace_operations,
)
from apps.policies.changesets.conflicts import Side
from apps.policies.changesets.lifecycle import rebase_change_set
from apps.policies.changesets.quotas import require_room_for_draft, require_room_for_operations
from apps.policies.models import ChangeSet, Entry, Policy
from apps.policies.operations.apply import Outcome, added_uids, apply_operations
from apps.policies.operations.tree_edits import Archived
from apps.policies.records import NewChangeSet
from apps.policies.selectors import get_policy
from apps.policies.services import move_on, new_change_set
from apps.policies.settings import refuse_unsuitable_tree
from apps.policies.tree.stored import archived_lookup, load_tree

_WRITE = "policies:write"
_OPEN = (ChangeSet.State.DRAFT, ChangeSet.State.PROPOSED, ChangeSet.State.APPROVED)
MOST_UNDONE = 1_000
_MOST_ARCHIVED_LISTED = 50


def list_drafts(*, policy: Policy, at: datetime, actor: Actor) -> list[ChangeSet]:
    """List the actor's own drafts and unpublished proposals made by hand, last edited first.

    Empty for an actor without edit rights: a draft could reveal entries that they no longer see.
    """
    if actor.user is None or not may_edit(policy, actor, at):
        return []
    change_sets = ChangeSet.objects.filter(policy=policy, author=actor.user, state__in=_OPEN).select_related("policy")
    return [each for each in change_sets.order_by("-updated_at", "-pk")[:50] if not _is_whole(each.operations)]


def find_draft(*, policy: Policy, at: datetime, actor: Actor) -> ChangeSet | None:
    """Return the actor's most recently edited draft, or None."""
    drafts = list_drafts(policy=policy, at=at, actor=actor)
    return next((each for each in drafts if each.state == ChangeSet.State.DRAFT), None)


def find_draft_of(*, policy_slug: str, at: datetime, actor: Actor) -> ChangeSet | None:
    """Return the actor's most recently edited draft of a policy, by its slug."""
    return find_draft(policy=get_policy(slug=policy_slug, actor=actor, scope=_WRITE), at=at, actor=actor)


def open_draft(*, policy_slug: str, reason: str = "", at: datetime, actor: Actor) -> ChangeSet:
    """Create an empty draft on the head; the actor must have some edit rights in the policy."""
    policy = get_policy(slug=policy_slug, actor=actor, scope=_WRITE)
    require_editor(policy, actor, at)
    with transaction.atomic():
        require_room_for_draft(actor, 0)
        draft = new_change_set(policy, NewChangeSet(operations=[], reason=clean_reason(reason)), actor, at)
        record(
            actor=actor,
            verb="changeset.drafted",
            at=at,
            policy_slug=policy.slug,
            reason=draft.reason,
            subject=f"change set {draft.pk}",
            details={"base": draft.base_number, "n_operations": 0},
        )
    return draft


def may_edit(policy: Policy, actor: Actor, at: datetime) -> bool:
    """Return whether the actor may change anything in the policy."""
    if not actor.has_scope(_WRITE):
        return False
    seen = visible_entries(policy=policy, tree=load_tree(policy), actor=actor, at=at)
    return bool(seen.divided.any())


def may_draft(policy: Policy, actor: Actor, at: datetime) -> bool:
    """Return whether the actor may start a draft: `may_edit` in a policy that isn't archived."""
    return policy.archived_at is None and may_edit(policy, actor, at)


def require_editor(policy: Policy, actor: Actor, at: datetime) -> None:
    if not may_edit(policy, actor, at):
        raise NotAllowed(
            "You can't change any entry here. Request a larger share from the managers of the entry above instead."
        )


class CheckedOperations(NamedTuple):
    """Outcome of operations, and what the actor's grants show of the tree that they begin with."""

    outcome: Outcome
    visibility: Visibility


class WrittenDraft(NamedTuple):
    """A draft after an edit, with what was computed for it. before: its operations until then."""

    draft: ChangeSet
    checked: CheckedOperations
    before: Sequence[Mapping[str, Any]]


def add_operations(
    *, id: int, version: int, operations: Sequence[Mapping[str, Any]], at: datetime, actor: Actor
) -> ChangeSet:
    """Append operations to the draft; if one is invalid, none is added."""
    return write_operations(id=id, version=version, operations=operations, at=at, actor=actor).draft


def write_operations(
    *,
    id: int,
    version: int,
    operations: Sequence[Mapping[str, Any]],
    at: datetime,
    actor: Actor,
    checked: CheckedOperations | None = None,
) -> WrittenDraft:
    """Append operations to the draft; return it with its outcome, for display.

    checked: of the draft with these operations, if it was computed for the same actor and version a moment ago.
    """
    with transaction.atomic():
        draft = _draft_for_write(id, version, actor, at)
        before, whole = draft.operations, [*draft.operations, *operations]
        if not operations:
            raise Invalid("There is no edit in this.", fields=[FieldProblem("operations", "is empty")])
        try:
            checked = checked or check_operations(draft, whole, actor, at, n_checked=len(before))
        except DomainError as error:
            _number_as_asked(error, len(before))
            raise
        require_room_for_operations(actor, len(checked.outcome.operations), instead_of=draft)
        draft.operations, draft.undone = checked.outcome.operations, []
        return WrittenDraft(_moved_on(draft, actor, at), checked, before)


def undo(*, id: int, version: int, n: int = 1, at: datetime, actor: Actor) -> ChangeSet:
    """Undo the last n edits; until the next edit, `redo` restores them."""
    with transaction.atomic():
        draft = _draft_for_write(id, version, actor, at)
        if not 1 <= n <= len(draft.operations):
            raise Invalid("There is nothing left to undo.", code="nothing_to_undo")
        kept, gone = draft.operations[:-n], draft.operations[-n:]
        draft.operations, draft.undone = kept, [*draft.undone, *reversed(gone)][-MOST_UNDONE:]
        return _moved_on(draft, actor, at)


def redo(*, id: int, version: int, n: int = 1, at: datetime, actor: Actor) -> ChangeSet:
    """Redo the n edits that were undone last."""
    with transaction.atomic():
        draft = _draft_for_write(id, version, actor, at)
        if not 1 <= n <= len(draft.undone):
            raise Invalid("There is nothing to redo.", code="nothing_to_redo")
        again = list(reversed(draft.undone[-n:]))
        draft.operations = check(draft, [*draft.operations, *again], actor, at).operations
        draft.undone = draft.undone[:-n]
        return _moved_on(draft, actor, at)


def drop_operation(*, id: int, version: int, index: int, at: datetime, actor: Actor) -> ChangeSet:
    """Remove the edit at an index; refused if a later one depends on it."""
    with transaction.atomic():
        draft = _draft_for_write(id, version, actor, at)
        if not 0 <= index < len(draft.operations):
            raise Invalid("There is no such edit in this draft.", fields=[FieldProblem("index", "names no edit")])
        gone = draft.operations[index]
        left = [*draft.operations[:index], *draft.operations[index + 1 :]]
        try:
            operations = check(draft, left, actor, at).operations
        except (Invalid, NotFound) as error:
            raise Conflict(f"A later edit depends on this one: {error.message}", code="rested_on") from None
        reanchor(draft, operations)
        draft.operations = operations
        draft.undone = [*draft.undone, gone][-MOST_UNDONE:]
        return _moved_on(draft, actor, at)


def describe_draft(*, id: int, version: int, reason: str, at: datetime, actor: Actor) -> ChangeSet:
    """Set the draft's reason, whose first line is used as its title."""
    with transaction.atomic():
        draft = _draft_for_write(id, version, actor, at)
        draft.reason = clean_reason(reason)
        return _moved_on(draft, actor, at)


def update_draft(
    *, id: int, version: int, choices: Mapping[str, Side] | None = None, at: datetime, actor: Actor
) -> ChangeSet:
    """Rebase the draft on the head; raise EditConflict with the conflicts that have no choice yet."""
    with transaction.atomic():
        draft = get_change_set_for_write(id, actor, at, version=version)
        if draft.operations:
            return rebase_change_set(id=id, version=version, choices=choices, at=at, actor=actor)
        head = Policy.all_objects.values_list("head_number", flat=True).get(pk=draft.policy_id)
        replace_operations(draft, [], head)
        return move_on(draft, draft.state, actor, at, "changeset.rebased")


def check(draft: ChangeSet, operations: Sequence[Mapping[str, Any]], actor: Actor, at: datetime) -> Outcome:
    """Apply the operations to the draft's base and return the outcome; raise the error of the first invalid one."""
    return check_operations(draft, operations, actor, at).outcome


def check_operations(
    draft: ChangeSet, operations: Sequence[Mapping[str, Any]], actor: Actor, at: datetime, *, n_checked: int = 0
) -> CheckedOperations:
    """As `check`, with what the actor sees of the base. n_checked: so many of the first are the draft's own."""
    _refuse_whole(operations[n_checked:])
    policy = draft.policy
    base, settings = load_revision(policy, draft.base_number)
    if not operations:
        sees = visible_entries(policy=policy, tree=base, actor=actor, at=at)
        return CheckedOperations(Outcome(base, settings, [], {}, ()), sees)
    guard = ActorGuard(policy=policy, tree=base, actor=actor, at=at, only_see=True)
    archived = _archived(draft, operations)
    outcome = apply_operations(
        base, list(operations), settings=settings, guard=guard, archived=archived, n_checked=n_checked
    )
    if not _accepts_inherit(outcome) or package_of(outcome.settings.algorithm):
        refuse_unsuitable_tree(outcome.tree, outcome.settings.algorithm, policy)
    return CheckedOperations(outcome, guard.visibility)


def may_publish(draft: ChangeSet, actor: Actor, at: datetime) -> bool:
    """Return whether the actor could publish the draft on its base."""
    if not draft.operations or _is_whole(draft.operations):
        return False
    if administers_policies(actor) and actor.token is None:
        return True
    policy = draft.policy
    base, settings = load_revision(policy, draft.base_number)
    guard = ActorGuard(policy=policy, tree=base, actor=actor, at=at, extra_verbs=(Verb.PUBLISH,))
    try:
        archived = _archived(draft, draft.operations)
        outcome = apply_operations(base, draft.operations, settings=settings, guard=guard, archived=archived)
        refuse_account_moves(outcome, policy=policy, actor=actor, at=at)
    except DomainError:
        return False
    return True


def list_archived(draft: ChangeSet, parent_uid: UUID) -> list[Entry]:
    """List entries that were archived from below this one, with their last values, last archived first."""
    closed = Entry.objects.filter(policy=draft.policy_id, parent_uid=parent_uid, until__lte=draft.base_number)
    newest = closed.order_by("uid", "-since").distinct("uid")
    uids = [entry.uid for entry in newest[:2_000]]
    alive = Entry.objects.filter(policy=draft.policy_id, uid__in=uids, since__lte=draft.base_number)
    present = set(alive.filter(Q(until=None) | Q(until__gt=draft.base_number)).values_list("uid", flat=True))
    gone = [entry for entry in newest[:2_000] if entry.uid not in present]
    return sorted(gone, key=lambda entry: (-(entry.until or 0), entry.name))[:_MOST_ARCHIVED_LISTED]


def named_uids(operations: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the uids of entries that operations change or use as a parent."""
    return {str(each[key]) for each in operations for key in ("entry", "parent", "uid") if each.get(key)}


def list_neighbours(draft: ChangeSet, *, since: datetime) -> list[ChangeSet]:
    """List open change sets of others that touch some of the same entries, last edited first."""
    uids = named_uids(draft.operations)
    others = ChangeSet.objects.filter(policy=draft.policy_id, state__in=_OPEN, updated_at__gte=since)
    others = others.exclude(pk=draft.pk).exclude(author=draft.author_id) if draft.author_id else others
    return [
        each
        for each in others.select_related("policy").order_by("-updated_at")[:50]
        if uids & named_uids(each.operations)
    ]


def _archived(draft: ChangeSet, operations: Sequence[Mapping[str, Any]]) -> Archived:
    return archived_lookup(draft.policy, draft.base_number, new_uids=added_uids(operations))


def _draft_for_write(id: int, version: int, actor: Actor, at: datetime) -> ChangeSet:
    draft = get_change_set_for_write(id, actor, at, version=version)
    _refuse_whole(draft.operations)
    return draft


def _moved_on(draft: ChangeSet, actor: Actor, at: datetime) -> ChangeSet:
    draft.approvals.all().delete()  # an approval is valid for one version only
    draft.effective_at = None if draft.state == ChangeSet.State.APPROVED else draft.effective_at
    return move_on(draft, ChangeSet.State.DRAFT, actor, at, "changeset.edited")


def _accepts_inherit(outcome: Outcome) -> bool:
    """Return whether the algorithm supports inherited shares; almost all do, and then the tree needs no check."""
    try:
        return get_algorithm(str(outcome.settings.algorithm["name"])).takes_inherit
    except BadParameter:
        return False


def _number_as_asked(error: DomainError, n_before: int) -> None:
    """Number the operations that the error names as in the request, not as in the draft."""

    def renumbered(text: str) -> str:
        head, mark, rest = text.partition("operations[")
        number, bracket, tail = rest.partition("]")
        whole = read_whole(number)
        if not mark or whole is None or whole < n_before:
            return text
        return f"{head}{mark}{whole - n_before}{bracket}{tail}"

    error.message = renumbered(error.message)
    error.args = (error.message,)
    error.fields = tuple(FieldProblem(renumbered(each.where), each.message) for each in error.fields)


def _refuse_whole(operations: Sequence[Mapping[str, Any]]) -> None:
    """Refuse whole-tree change sets, which have no single edits that could be shown or undone."""
    if _is_whole(operations):
        raise Conflict("This draft replaces the whole tree: import the file again with the change in it.", code="whole")


def _is_whole(operations: Sequence[Mapping[str, Any]]) -> bool:
    return any(operation.get("op") == "document" for operation in operations)
