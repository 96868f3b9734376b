"""Transitions of a change set: approve, send back, comment, schedule, publish when due, rebase."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction

from apps.accounts.actor import Actor
from apps.accounts.audit_log import record
from apps.accounts.models import User
from apps.core.errors import Conflict, DomainError, FieldProblem, Invalid, NotAllowed, NotFound
from apps.policies.access.authority import ActorGuard
from apps.policies.changesets.change_sets import (
    clean_reason,
    conflicts_with_head,
    get_change_set_for_write,
    load_revision,
    merged_outcome,
    move_anchors,
    replace_operations,
    require_future,
    require_reason,
    require_reason_to_publish,
    settings_of,
)
from apps.policies.changesets.conflicts import (
    EditConflict,
    FieldConflict,
    MergeSides,
    Side,
    refuse_hidden,
    resolve_conflicts,
    shown_conflicts,
)
from apps.policies.models import Approval, ChangeSet, Comment, Policy, Revision
from apps.policies.operations.apply import Outcome, added_uids, apply_operations
from apps.policies.operations.whole_trees import is_document
from apps.policies.publishing.revisions import lock_policy
from apps.policies.publishing.size_guard import ProposedChange, require_approver, require_second_person
from apps.policies.selectors import get_change_set
from apps.policies.services import merge_and_publish, move_on
from apps.policies.tree.stored import archived_lookup, load_tree

State = ChangeSet.State


def approve_change_set(*, id: int, version: int, at: datetime, actor: Actor) -> ChangeSet:
    """Approve a change set as a second person: not its author, and with rights for every operation."""
    with transaction.atomic():
        change_set = get_change_set_for_write(id, actor, at, version=version, to_publish=True)
        if actor.user is not None and actor.user.pk == change_set.author_id:
            raise NotAllowed("You can't approve your own change set: ask a second person.", code="own_change_set")
        require_approver(change_set, actor, at)
        if change_set.state == State.DRAFT:
            raise Conflict(f"Change set {id} is a draft: it must be proposed first.", code="not_proposed")
        change_set.approvals.filter(user=actor.user).delete()
        change_set = _carrying_approvals(change_set, actor, at, "changeset.approved")
        Approval.objects.create(
            change_set=change_set, version=change_set.version, user=actor.user, user_name=actor.name, created_at=at
        )
    return change_set


def request_changes(*, id: int, version: int, text: str, at: datetime, actor: Actor) -> ChangeSet:
    """Send a change set back to its author with a comment."""
    text = require_reason(text)
    with transaction.atomic():
        change_set = get_change_set_for_write(id, actor, at, version=version, to_publish=True)
        require_approver(change_set, actor, at)
        if change_set.state == State.DRAFT:
            raise Conflict(f"Change set {id} is a draft: no review was requested yet.", code="not_proposed")
        _record_event(change_set, text, None, actor, at)
        change_set.approvals.all().delete()
        change_set.effective_at, change_set.decided_by, change_set.decided_name = None, None, ""
        return move_on(change_set, State.DRAFT, actor, at, "changeset.sent_back", text)


def comment_on(*, id: int, text: str, operation: int | None = None, at: datetime, actor: Actor) -> Comment:
    """Comment on a change set or one of its operations, as anyone who sees it; comments survive a rebase."""
    change_set = get_change_set(id=id, actor=actor, at=at)
    if operation is not None and not 0 <= operation < len(change_set.operations):
        problem = FieldProblem("operation", "is not the index of one of its operations")
        raise Invalid(f"operation {problem.message}.", fields=[problem])
    with transaction.atomic():
        return _record_event(change_set, require_reason(text, "Enter a comment."), operation, actor, at)


def schedule_change_set(
    *, id: int, version: int, effective_at: datetime, reason: str | None = None, at: datetime, actor: Actor
) -> ChangeSet:
    """Schedule a publication. All rights are checked now, and again when it is due."""
    require_future(effective_at, at)
    with transaction.atomic():
        change_set = get_change_set_for_write(id, actor, at, version=version, to_publish=True)
        change_set.reason = require_reason_to_publish(change_set.reason if reason is None else reason)
        policy = change_set.policy
        outcome = merged_outcome(change_set, policy, actor, at)
        settings = settings_of(policy, policy.head_number)
        require_second_person(change_set, policy, ProposedChange.of_outcome(outcome), settings, actor, at)
        change_set.effective_at, change_set.held_for = effective_at, ""
        change_set.decided_by, change_set.decided_name = actor.user, actor.name
        return _carrying_approvals(change_set, actor, at, "changeset.scheduled")


def _carrying_approvals(change_set: ChangeSet, actor: Actor, at: datetime, verb: str) -> ChangeSet:
    """Move the change set to APPROVED without invalidating the approvals of its previous version."""
    approvals = change_set.approvals.filter(version=change_set.version)
    kept = list(approvals.values_list("pk", flat=True))
    change_set = move_on(change_set, State.APPROVED, actor, at, verb)
    change_set.approvals.filter(pk__in=kept).update(version=change_set.version)
    return change_set


def publish_due(*, at: datetime) -> list[Revision]:
    """Publish change sets that are due, oldest first; send back those that can't be, with the reason. Safe to run
    twice."""
    due = ChangeSet.objects.filter(state=State.APPROVED, effective_at__lte=at, policy__archived_at=None)
    due = due.order_by("effective_at", "pk")
    published = []
    for pk, policy_id in due.values_list("pk", "policy_id"):
        revision = _publish_if_due(pk, policy_id, at)
        if revision is not None:
            published.append(revision)
    return published


def _publish_if_due(pk: int, policy_id: int, at: datetime) -> Revision | None:
    try:
        with transaction.atomic():
            lock_policy(policy_id)
            change_set = _still_due(pk, at)
            if change_set is not None and not change_set.decided_name:
                raise Conflict("It was due, but no decision was made.", code="undecided")
            return None if change_set is None else merge_and_publish(change_set, _decider(change_set), at)
    except DomainError as error:
        with transaction.atomic():
            change_set = _still_due(pk, at)
            if change_set is not None:
                change_set.held_for, change_set.effective_at = error.message, None
                move_on(change_set, State.PROPOSED, _decider(change_set), at, "changeset.held", error.message)
    return None


def _still_due(pk: int, at: datetime) -> ChangeSet | None:
    change_sets = ChangeSet.objects.select_for_update(of=("self",), no_key=True).select_related("policy", "decided_by")
    return change_sets.filter(pk=pk, state=State.APPROVED, effective_at__lte=at).first()


def _decider(change_set: ChangeSet) -> Actor:
    """Return the user who scheduled it, with current rights; a deleted or inactive user can publish nothing."""
    if change_set.decided_by is None:
        return Actor(user=User(username=change_set.decided_name, is_active=False), via="worker")
    return Actor(user=change_set.decided_by, via="worker")


def rebase_change_set(
    *, id: int, version: int, choices: Mapping[str, Side] | None = None, at: datetime, actor: Actor
) -> ChangeSet:
    """Rebase a change set on the head. choices: for each conflict, by key, which side wins.

    `theirs` drops the operations that set the field; `mine` keeps them and overwrites the head's value. Raises
    EditConflict with the conflicts that have no choice.
    """
    with transaction.atomic():
        change_set = get_change_set_for_write(id, actor, at, version=version)
        if is_document(change_set):
            raise Conflict("It replaces the whole tree it was made on: import the file again.", code="stale_document")
        policy = Policy.all_objects.get(pk=change_set.policy_id)
        head, settings = load_revision(policy, policy.head_number)
        sides = _sides(change_set, policy)
        settled = resolve_conflicts(sides, change_set.operations, choices or {})
        guard = ActorGuard(policy=policy, tree=head, actor=actor, at=at, only_see=True)

        def work() -> Outcome:
            kept = settled.operations
            archived = archived_lookup(policy, new_uids=added_uids(kept))
            return apply_operations(head, kept, settings=settings, guard=guard, archived=archived)

        if settled.open:
            shown = shown_conflicts(settled.open, policy=policy, base=sides.base, head=head, actor=actor, at=at)
            refuse_hidden(shown, work)
            raise EditConflict(shown, base_number=change_set.base_number, head_number=policy.head_number)
        if not settled.kept:
            raise Invalid("No operation remains: withdraw it.", code="nothing_to_change")
        outcome = work()
        if outcome.is_empty and outcome.settings == settings:
            raise Invalid("Nothing would change: this is the current state.", code="nothing_to_change")
        places = {old: new for new, (old, _) in enumerate(settled.kept)}
        move_anchors(change_set, places)
        replace_operations(change_set, outcome.operations, policy.head_number)
        change_set.approvals.all().delete()
        change_set.effective_at = None if change_set.state == State.APPROVED else change_set.effective_at
        change_set.decided_by, change_set.decided_name = None, ""
        state = State.DRAFT if change_set.state == State.DRAFT else State.PROPOSED
        return move_on(change_set, state, actor, at, "changeset.rebased")


def open_conflicts(change_set: ChangeSet, *, at: datetime, actor: Actor) -> list[FieldConflict]:
    """Return the conflicts with the head that the actor may see and resolve.

    Empty for a whole tree, which can't be rebased, and if a rebase is refused because the author lost sight of entries.
    """
    policy = Policy.all_objects.get(pk=change_set.policy_id)
    if is_document(change_set) or change_set.base_number == policy.head_number:
        return []
    conflicts = conflicts_with_head(change_set, policy)
    if not conflicts:
        return []
    base, head = load_tree(policy, change_set.base_number), load_tree(policy)
    shown = shown_conflicts(conflicts, policy=policy, base=base, head=head, actor=actor, at=at)
    guard = ActorGuard(policy=policy, tree=head, actor=actor, at=at, only_see=True)
    settings = settings_of(policy, policy.head_number)
    archived = archived_lookup(policy, new_uids=added_uids(change_set.operations))
    try:
        refuse_hidden(
            shown,
            lambda: apply_operations(head, change_set.operations, settings=settings, guard=guard, archived=archived),
        )
    except (NotAllowed, NotFound):
        return []
    return shown


def _sides(change_set: ChangeSet, policy: Policy) -> MergeSides:
    number, uids = change_set.base_number, frozenset(added_uids(change_set.operations))
    return MergeSides(
        load_tree(policy, number),
        load_tree(policy),
        settings_of(policy, number),
        settings_of(policy, policy.head_number),
        archived_lookup(policy, new_uids=uids),
        archived_lookup(policy, number, new_uids=uids),
    )


def _record_event(change_set: ChangeSet, text: str, operation: int | None, actor: Actor, at: datetime) -> Comment:
    comment = Comment.objects.create(
        change_set=change_set,
        operation=operation,
        author=actor.user,
        author_name=actor.name,
        text=clean_reason(text),
        created_at=at,
    )
    record(
        actor=actor,
        verb="changeset.commented",
        at=at,
        policy_slug=change_set.policy.slug,
        subject=f"change set {change_set.pk}",
        details={"operation": operation},
    )
    return comment
