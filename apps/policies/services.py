"""Services that change a policy. Each checks the actor's rights and writes its audit event in the same transaction."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from apps.accounts.actor import Actor
from apps.accounts.audit_log import log_refusals, logged_refusals, record
from apps.core.errors import FieldProblem, Invalid, NotAllowed
from apps.policies.access.authority import ActorGuard
from apps.policies.access.scope import administers_policies, require_policy, require_scope
from apps.policies.changesets.change_sets import (
    clean_reason,
    get_change_set_for_write,
    load_revision,
    merged_outcome,
    reanchor,
    replace_operations,
    require_future,
    require_reason_to_publish,
    settings_of,
)
from apps.policies.changesets.outcomes import effect_of
from apps.policies.changesets.quotas import (
    require_room_for_draft,
    require_room_for_operations,
    require_room_for_proposal,
)
from apps.policies.files.document import read_document
from apps.policies.files.parsed_document import ParsedDocument
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.operations.apply import added_uids, apply_operations
from apps.policies.operations.membership_reach import record_reach_of_tree
from apps.policies.operations.taken_shares import change_operations
from apps.policies.operations.whole_trees import delete_proposed_tree, document_operation, is_document
from apps.policies.publishing.revisions import NextRevision, lock_policy, publish_revision
from apps.policies.publishing.size_guard import ProposedChange, require_second_person
from apps.policies.records import UNSET, ChangeSetEdit, NewChangeSet, PolicyDetails
from apps.policies.requests.inbox import require_request
from apps.policies.requests.requested_shares import find_requested_entry
from apps.policies.selectors import get_policy
from apps.policies.settings import PolicySettings, refuse_unsuitable_tree
from apps.policies.tree.columns import Node
from apps.policies.tree.difference import refuse_inside_mounts
from apps.policies.tree.document_merge import merge_document, next_revision, refuse_new_names
from apps.policies.tree.names import clean_name, clean_text, new_uid
from apps.policies.tree.stored import archived_lookup, load_tree
from apps.policies.tree.working_tree import columns_of

__all__ = [
    "change_settings",
    "change_shares",
    "effect_of",
    "make_change_set",
    "make_policy",
    "merge_and_publish",
    "move_on",
    "new_change_set",
    "propose_change_set",
    "propose_shares",
    "publish_change_set",
    "publish_document",
    "replace_tree",
    "require_admin",
    "slug_problems",
    "unless_slug_exists",
    "update_change_set",
    "withdraw_change_set",
]

_WRITE = "policies:write"
SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


@logged_refusals("policy.published")
def make_policy(
    *,
    slug: str,
    name: str,
    settings: PolicySettings | None = None,
    details: PolicyDetails | None = None,
    at: datetime,
    actor: Actor,
) -> Policy:
    """Create a policy with only a root, published as revision 1."""
    require_admin(actor, slug)
    details = details or PolicyDetails()
    problems = slug_problems(slug)
    if details.visibility not in Policy.Visibility.values:
        problems.append(FieldProblem("visibility", f"must be one of {', '.join(Policy.Visibility.values)}"))
    try:
        name, description = clean_name(name), clean_text(details.description, 4_000)
    except ValueError as error:
        problems.append(FieldProblem("name", str(error)))
    if problems:
        raise Invalid(f"{problems[0].where} {problems[0].message}.", fields=problems)
    with unless_slug_exists(slug):
        policy = Policy(slug=slug, name=name, visibility=details.visibility, description=description)
        policy.is_sample, policy.created_at = details.is_sample, at
        policy.save(force_insert=True)
        return _write_first_revision(policy, settings or PolicySettings(), actor, at)


def slug_problems(slug: str) -> list[FieldProblem]:
    """Return why a slug is invalid, or []."""
    if SLUG.fullmatch(slug):
        return []
    return [FieldProblem("slug", "must be 1–64 of a–z, 0–9 and -, beginning with a letter or digit")]


@contextmanager
def unless_slug_exists(slug: str) -> Iterator[None]:
    """Transaction in which a policy is created; raises Invalid if the slug exists."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:
        if "slug" not in str(error):
            raise
        raise Invalid(f"There is a policy {slug!r} already.", fields=[FieldProblem("slug", "is in use")]) from error


def _write_first_revision(policy: Policy, settings: PolicySettings, actor: Actor, at: datetime) -> Policy:
    root = Node(new_uid(), None, policy.slug)
    operations = [{"op": "set_policy", "settings": settings.to_json()}]
    new = NewChangeSet(operations=operations, base_revision=0, reason="A new policy.")
    change_set = new_change_set(policy, new, actor, at)
    following = NextRevision(columns_of([root]), settings, [], [root], 1, 1)
    publish_revision(
        policy=policy, change_set=change_set, following=following, actor=actor, reason=change_set.reason, at=at
    )
    return policy


@logged_refusals("changeset.drafted")
def make_change_set(*, policy_slug: str, new: NewChangeSet, at: datetime, actor: Actor) -> ChangeSet:
    """Create a draft: fully checked against its base, without effect.

    Rights to publish it are checked on publishing, and whether it is a valid request when it is sent.
    """
    policy = get_policy(slug=policy_slug, actor=actor, scope=_WRITE)
    require_future(new.effective_at, at)
    asked = None if new.asks is None else find_requested_entry(policy, new.asks, actor, at)
    base, reason = _existing_base(policy, new.base_revision), clean_reason(new.reason)
    with transaction.atomic():
        resolved = _checked(policy, base, new.operations, actor, at)
        checked = replace(new, operations=resolved, base_revision=base, reason=reason)
        require_room_for_draft(actor, len(resolved))
        change_set = new_change_set(policy, checked, actor, at, asks=asked)
        record(
            actor=actor,
            verb="changeset.drafted",
            at=at,
            policy_slug=policy.slug,
            reason=reason,
            subject=f"change set {change_set.pk}",
            details={"base": base, "n_operations": len(new.operations)},
        )
    return change_set


@logged_refusals("changeset.edited")
def update_change_set(*, id: int, version: int, edit: ChangeSetEdit, at: datetime, actor: Actor) -> ChangeSet:
    """Replace the given fields of an unpublished change set. `version` must be current, or Stale is raised."""
    with transaction.atomic():
        change_set = get_change_set_for_write(id, actor, at, version=version)
        if edit.operations is not None or edit.base_revision is not None:
            wanted = change_set.operations if edit.operations is None else edit.operations
            base = _existing_base(change_set.policy, edit.base_revision or change_set.base_number)
            resolved = _checked(change_set.policy, base, wanted, actor, at)
            require_room_for_operations(actor, len(resolved), instead_of=change_set)
            reanchor(change_set, resolved)
            replace_operations(change_set, resolved, base)
        change_set.reason = change_set.reason if edit.reason is None else clean_reason(edit.reason)
        if edit.effective_at is not UNSET:
            change_set.effective_at = require_future(edit.effective_at, at)
        # Approvals and a scheduling decision apply to one version only.
        change_set.approvals.all().delete()
        change_set.decided_by, change_set.decided_name = None, ""
        return move_on(change_set, ChangeSet.State.DRAFT, actor, at, "changeset.edited")


@logged_refusals("changeset.proposed")
def propose_change_set(*, id: int, version: int, reason: str | None = None, at: datetime, actor: Actor) -> ChangeSet:
    """Send a change set to the people who may publish it."""
    with transaction.atomic():
        change_set = get_change_set_for_write(id, actor, at, version=version)
        change_set.reason = require_reason_to_publish(change_set.reason if reason is None else reason)
        if change_set.origin == ChangeSet.Origin.REQUEST:
            require_request(change_set, actor, at)
        if change_set.state == ChangeSet.State.DRAFT:
            require_room_for_proposal(actor)
        return move_on(change_set, ChangeSet.State.PROPOSED, actor, at, "changeset.proposed")


@logged_refusals("changeset.withdrawn")
def withdraw_change_set(*, id: int, version: int, reason: str | None = None, at: datetime, actor: Actor) -> ChangeSet:
    """Withdraw a change set; it stays readable."""
    with transaction.atomic():
        change_set = get_change_set_for_write(id, actor, at, version=version)
        reason = clean_reason(reason or "")
        # Cleared, because a withdrawn request with a decider counts as declined.
        change_set.decided_by, change_set.decided_name = None, ""
        return move_on(change_set, ChangeSet.State.WITHDRAWN, actor, at, "changeset.withdrawn", reason)


@logged_refusals("policy.published")
def publish_change_set(
    *, id: int, version: int, reason: str | None = None, at_once: bool = False, at: datetime, actor: Actor
) -> Revision:
    """Publish a change set on the current head, or refuse it and change nothing.

    at_once: ignore a later effective_at.
    """
    with transaction.atomic():
        policy_id = ChangeSet.objects.filter(pk=id).values_list("policy_id", flat=True).first()
        if policy_id is not None:
            lock_policy(policy_id)
        change_set = get_change_set_for_write(id, actor, at, version=version, to_publish=True)
        change_set.reason = require_reason_to_publish(change_set.reason if reason is None else reason)
        change_set.effective_at = None if at_once else change_set.effective_at
        return merge_and_publish(change_set, actor, at)


def change_shares(
    *,
    policy_slug: str,
    entry_uid: UUID,
    shares: Any,
    reason: str,
    base_revision: int | None = None,
    giver: UUID | None = None,
    at: datetime,
    actor: Actor,
) -> Revision:
    """Publish a change of one entry's shares. shares: a number, "parent", or {"percent": …, "from": …}.

    giver: a sibling that gives or takes the difference, as in `change_operations`.
    """
    new = _new_shares(policy_slug, entry_uid, shares, reason, base_revision, giver, actor)
    event = {"subject": f"shares of {entry_uid}", "entry_uid": entry_uid}
    return _commit_operations(policy_slug, new, event, actor, at)


def propose_shares(
    *,
    policy_slug: str,
    entry_uid: UUID,
    shares: Any,
    reason: str,
    base_revision: int | None = None,
    giver: UUID | None = None,
    at: datetime,
    actor: Actor,
) -> ChangeSet:
    """Send the change that `change_shares` would publish to those who may approve it."""
    new = _new_shares(policy_slug, entry_uid, shares, require_reason_to_publish(reason), base_revision, giver, actor)
    with transaction.atomic():
        change_set = make_change_set(policy_slug=policy_slug, new=new, at=at, actor=actor)
        return propose_change_set(id=change_set.pk, version=change_set.version, at=at, actor=actor)


def _new_shares(
    policy_slug: str,
    entry_uid: UUID,
    shares: Any,
    reason: str,
    base_revision: int | None,
    giver: UUID | None,
    actor: Actor,
) -> NewChangeSet:
    policy = get_policy(slug=policy_slug, actor=actor, scope=_WRITE)
    tree = None if giver is None else load_revision(policy, _existing_base(policy, base_revision))[0]
    operations = change_operations(tree, entry_uid, shares, giver)
    return NewChangeSet(operations=operations, base_revision=base_revision, reason=reason)


def change_settings(
    *,
    policy_slug: str,
    settings: Mapping[str, Any],
    reason: str,
    base_revision: int | None = None,
    at: datetime,
    actor: Actor,
) -> Revision:
    """Publish a change of some settings, as a change set of one operation."""
    operations = [{"op": "set_policy", "settings": dict(settings)}]
    new = NewChangeSet(operations=operations, base_revision=base_revision, reason=reason)
    return _commit_operations(policy_slug, new, {"subject": "settings"}, actor, at)


def _commit_operations(
    policy_slug: str, new: NewChangeSet, event: dict[str, Any], actor: Actor, at: datetime
) -> Revision:
    """Publish the operations on their base. event: of the audit log if they are refused."""
    policy = get_policy(slug=policy_slug, actor=actor, scope=_WRITE)
    with log_refusals("policy.published", actor, at, policy_slug=policy.slug, **event), transaction.atomic():
        policy = lock_policy(policy.pk)
        base = _existing_base(policy, new.base_revision)
        resolved = _checked(policy, base, new.operations, actor, at)
        checked = replace(new, operations=resolved, base_revision=base, reason=require_reason_to_publish(new.reason))
        return merge_and_publish(new_change_set(policy, checked, actor, at), actor, at)


@logged_refusals("policy.published")
def publish_document(
    *, policy_slug: str, document: Mapping[str, Any] | ParsedDocument, reason: str, at: datetime, actor: Actor
) -> Revision:
    """Publish a whole tree. Entries are matched by uid, otherwise by path; entries that it leaves out are archived.

    A document equal to the current tree changes nothing and returns the head.
    """
    require_admin(actor, policy_slug)
    policy = get_policy(slug=policy_slug, actor=actor, scope=_WRITE)
    read = document if isinstance(document, ParsedDocument) else read_document(document)
    with transaction.atomic():
        policy = lock_policy(policy.pk)
        settings = settings_of(policy, policy.head_number)
        wanted = PolicySettings.from_json(read.settings, base=settings) if read.settings else settings
        head = load_tree(policy)
        tree = record_reach_of_tree(merge_document(read, head), head, at)
        refuse_new_names(read, head, tree)
        following = next_revision(head, tree, wanted)
        if not following.closed and not following.n_opened and wanted == settings:
            return Revision.objects.defer("tree").get(policy=policy, number=policy.head_number)
        return replace_tree(policy, following, reason, ChangeSet.Origin.HAND, actor, at)


def replace_tree(
    policy: Policy, following: NextRevision, reason: str, origin: str, actor: Actor, at: datetime
) -> Revision:
    """Publish a whole tree. The caller has locked the policy and checked the actor's rights."""
    refuse_unsuitable_tree(following.tree, following.settings.algorithm, policy)
    _refuse_below_mounts(policy, origin, following)
    reason = require_reason_to_publish(reason)
    new = NewChangeSet(operations=document_operation(following), reason=reason, origin=origin)
    change_set = new_change_set(policy, new, actor, at)
    settings = settings_of(policy, policy.head_number)
    require_second_person(change_set, policy, ProposedChange(following.tree, following.settings), settings, actor, at)
    return publish_revision(
        policy=policy, change_set=change_set, following=following, actor=actor, reason=reason, at=at
    )


def merge_and_publish(change_set: ChangeSet, actor: Actor, at: datetime) -> Revision:
    """Merge the change set with the head, check every operation, publish. The caller has locked the policy."""
    policy = Policy.all_objects.get(pk=change_set.policy_id)
    if change_set.effective_at is not None and change_set.effective_at > at:
        raise Invalid("It takes effect later than now: clear effective_at to publish it at once.", code="not_due")
    outcome = merged_outcome(change_set, policy, actor, at)
    settings = settings_of(policy, policy.head_number)
    if outcome.is_empty and outcome.settings == settings:
        raise Invalid("Nothing would change: this is the current state.", code="nothing_to_change")
    require_second_person(change_set, policy, ProposedChange.of_outcome(outcome), settings, actor, at)
    change_set.operations = outcome.operations
    change_set.save(update_fields=["operations", "reason", "effective_at"])
    following = NextRevision.of_outcome(outcome)
    _refuse_below_mounts(policy, change_set.origin, following)
    revision = publish_revision(
        policy=policy, change_set=change_set, following=following, actor=actor, reason=change_set.reason, at=at
    )
    if is_document(change_set):
        delete_proposed_tree(change_set)
    return revision


def _refuse_below_mounts(policy: Policy, origin: str, following: NextRevision) -> None:
    """Refuse changes below a mount, unless they come from its own documents."""
    if origin != ChangeSet.Origin.MOUNT:
        refuse_inside_mounts(load_tree(policy), following.tree)


def _checked(
    policy: Policy, base: int, operations: Sequence[Mapping[str, Any]], actor: Actor, at: datetime
) -> list[dict[str, Any]]:
    """Apply the operations to the base without saving; return them with their references resolved."""
    tree = load_tree(policy, base)
    guard = ActorGuard(policy=policy, tree=tree, actor=actor, at=at, only_see=True)
    settings = settings_of(policy, base)
    archived = archived_lookup(policy, base, new_uids=added_uids(operations))
    outcome = apply_operations(tree, operations, settings=settings, guard=guard, archived=archived)
    if outcome.is_empty and outcome.settings == settings:
        raise Invalid("Nothing would change: this is the current state.", code="nothing_to_change")
    refuse_unsuitable_tree(outcome.tree, outcome.settings.algorithm, policy)
    return outcome.operations


def new_change_set(
    policy: Policy, new: NewChangeSet, actor: Actor, at: datetime, *, asks: UUID | None = None
) -> ChangeSet:
    """Insert a draft without checks. asks: uid of the entry that a request is for."""
    return ChangeSet.objects.create(
        origin=new.origin if asks is None else ChangeSet.Origin.REQUEST,
        asks_entry_uid=asks,
        policy=policy,
        base_number=policy.head_number if new.base_revision is None else new.base_revision,
        operations=list(new.operations),
        reason=new.reason,
        author=actor.user,
        author_name=actor.name,
        effective_at=new.effective_at,
        created_at=at,
        updated_at=at,
    )


def move_on(
    change_set: ChangeSet, state: str, actor: Actor, at: datetime, verb: str, reason: str | None = None
) -> ChangeSet:
    change_set.state = state
    change_set.version += 1
    change_set.updated_at = at
    change_set.save()
    record(
        actor=actor,
        verb=verb,
        at=at,
        policy_slug=change_set.policy.slug,
        subject=f"change set {change_set.pk}",
        reason=change_set.reason if reason is None else reason,
    )
    return change_set


def _existing_base(policy: Policy, number: int | None) -> int:
    wanted = policy.head_number if number is None else number
    if not 1 <= wanted <= policy.head_number:
        where = FieldProblem("base_revision", f"must be from 1 to the head, {policy.head_number}")
        raise Invalid(f"base_revision {where.message}.", fields=[where])
    return wanted


def require_admin(actor: Actor, slug: str) -> None:
    """Require an administrator whose token, if any, isn't limited to a subtree."""
    require_policy(actor, slug)
    require_scope(actor, _WRITE)
    if not administers_policies(actor):
        raise NotAllowed("Only an administrator can create or replace a whole policy.")
