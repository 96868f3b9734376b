"""Publish in one step: operations, a first revision, a whole tree, a mounted document, or effects of rules and dates.

Each creates a change set that the history lists. Whole trees are for mounts, and for changes that exceed the limit of
operations. Effects of rules and dates have no author.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db import transaction

from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.audit_log import logged_refusals, record
from apps.core.errors import DomainError, FieldProblem, Invalid, Stale
from apps.policies.changesets.change_sets import clean_reason, load_revision, require_reason_to_publish, settings_of
from apps.policies.changesets.quotas import require_room_for_draft
from apps.policies.files.parsed_document import ParsedDocument
from apps.policies.formats.base import Format
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.operations.apply import apply_operations
from apps.policies.operations.membership_reach import record_reach_of_tree
from apps.policies.operations.tree_edits import Archived
from apps.policies.operations.whole_trees import document_operation, store_proposed_tree
from apps.policies.publishing.revisions import NextRevision, lock_policy, publish_revision
from apps.policies.records import NewChangeSet, NewTree
from apps.policies.selectors import get_policy
from apps.policies.services import (
    make_change_set,
    merge_and_publish,
    move_on,
    new_change_set,
    publish_change_set,
    replace_tree,
    require_admin,
    slug_problems,
    unless_slug_exists,
)
from apps.policies.settings import PolicySettings, refuse_unsuitable_tree
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.document_merge import merge_document, next_revision, refuse_new_names
from apps.policies.tree.names import clean_name, new_uid
from apps.policies.tree.stored import load_archived, load_tree
from apps.policies.tree.terms import Dates
from apps.policies.tree.working_tree import columns_of

# Skipped operations that are logged one by one.
_MOST_LEFT_OUT = 20
Operation = Mapping[str, Any]


@logged_refusals("policy.published")
def publish_operations(
    *, policy_slug: str, operations: Sequence[Mapping[str, Any]], reason: str, at: datetime, actor: Actor
) -> Revision:
    """Create and publish a change set on the current head; if refused, neither change set nor revision remains."""
    reason = require_reason_to_publish(reason)
    policy = get_policy(slug=policy_slug, actor=actor, scope="policies:write")
    with transaction.atomic():
        head = lock_policy(policy.pk).head_number
        made = make_change_set(
            policy_slug=policy_slug,
            new=NewChangeSet(base_revision=head, operations=list(operations), reason=reason),
            at=at,
            actor=actor,
        )
        return publish_change_set(id=made.pk, version=made.version, at=at, actor=actor)


def tree_of_document(declared: ParsedDocument, format: Format) -> TreeColumns:
    """Return a file's tree with new uids, not yet in any policy."""
    nothing = columns_of([Node(new_uid(), None, declared.policy or "root")])
    tree = merge_document(declared, nothing, fitted=format.fit(nothing))
    refuse_new_names(declared, nothing, tree)
    return tree


@logged_refusals("policy.published")
def create_policy_from_tree(
    *, slug: str, name: str, tree: TreeColumns, settings: PolicySettings, reason: str, at: datetime, actor: Actor
) -> Policy:
    """Create a policy with this tree as its first revision; users see only their own path."""
    require_admin(actor, slug)
    problems = slug_problems(slug)
    try:
        name = clean_name(name)
    except ValueError as error:
        problems.append(FieldProblem("name", str(error)))
    if problems:
        raise Invalid(f"{problems[0].where} {problems[0].message}.", fields=problems)
    refuse_unsuitable_tree(tree, settings.algorithm)
    reason = require_reason_to_publish(reason)
    whole = replace(tree, name=[slug, *tree.name[1:]], policy_slug=slug, digest="")
    following = NextRevision(whole, settings, [], whole.nodes(), len(whole), len(whole))
    with unless_slug_exists(slug):
        policy = Policy.objects.create(slug=slug, name=name, created_at=at)
        new = NewChangeSet(
            operations=document_operation(following), base_revision=0, reason=reason, origin=ChangeSet.Origin.IMPORT
        )
        change_set = new_change_set(policy, new, actor, at)
        publish_revision(policy=policy, change_set=change_set, following=following, actor=actor, reason=reason, at=at)
        return policy


@logged_refusals("policy.published")
def publish_tree(*, policy_slug: str, new: NewTree, at: datetime, actor: Actor) -> Revision:
    """Publish a whole tree; Stale is raised unless its base revision is still the head."""
    require_admin(actor, policy_slug)
    policy = get_policy(slug=policy_slug, actor=actor, scope="policies:write")
    with transaction.atomic():
        policy = lock_policy(policy.pk)
        if policy.head_number != new.base_revision:
            raise Stale(
                f"{policy.slug} is now at revision {policy.head_number}, not {new.base_revision}: repeat the change."
            )
        head = load_tree(policy)
        tree = record_reach_of_tree(new.tree, head, at)
        return replace_tree(policy, next_revision(head, tree, new.settings), new.reason, new.origin, actor, at)


@logged_refusals("changeset.drafted")
def propose_tree(*, policy_slug: str, new: NewTree, at: datetime, actor: Actor) -> ChangeSet:
    """Create a draft of a whole tree, which can be published while its base revision is the head."""
    require_admin(actor, policy_slug)
    policy = get_policy(slug=policy_slug, actor=actor, scope="policies:write")
    base = load_tree(policy, new.base_revision)
    tree = record_reach_of_tree(new.tree, base, at)
    following = next_revision(base, tree, new.settings)
    refuse_unsuitable_tree(tree, new.settings.algorithm)
    draft = NewChangeSet(
        operations=document_operation(following),
        base_revision=new.base_revision,
        reason=clean_reason(new.reason),
        origin=new.origin,
    )
    with transaction.atomic():
        require_room_for_draft(actor, len(draft.operations))
        change_set = new_change_set(policy, draft, actor, at)
        store_proposed_tree(change_set, tree, new.settings)
        record(
            actor=actor,
            verb="changeset.drafted",
            at=at,
            policy_slug=policy.slug,
            reason=draft.reason,
            subject=f"change set {change_set.pk}",
            details={"base": new.base_revision, "n_changed": following.n_changed},
        )
    return change_set


def publish_mounted_tree(*, policy: Policy, tree: TreeColumns, reason: str, at: datetime) -> Revision:
    """Publish the tree of a mounted document as the system, after its limits were checked. The caller has locked the
    policy."""
    settings = settings_of(policy, policy.head_number)
    following = next_revision(load_tree(policy), tree, settings)
    return replace_tree(policy, following, reason, ChangeSet.Origin.MOUNT, SYSTEM, at)


def propose_mounted_tree(*, policy: Policy, tree: TreeColumns, mount_uid: UUID, reason: str, at: datetime) -> ChangeSet:
    """Propose the tree of a mounted document to users who may mount there. The caller has locked the policy."""
    settings = settings_of(policy, policy.head_number)
    following = next_revision(load_tree(policy), tree, settings)
    refuse_unsuitable_tree(tree, settings.algorithm)
    operations = [{**operation, "mount": str(mount_uid)} for operation in document_operation(following)]
    new = NewChangeSet(operations=operations, reason=clean_reason(reason), origin=ChangeSet.Origin.MOUNT)
    change_set = new_change_set(policy, new, SYSTEM, at)
    store_proposed_tree(change_set, tree, settings)
    return move_on(change_set, ChangeSet.State.PROPOSED, SYSTEM, at, "changeset.proposed")


def publish_automatic(
    *,
    policy_id: int,
    operations: Sequence[Mapping[str, Any]],
    origin: str,
    reason: str,
    at: datetime,
    author: Actor = SYSTEM,
) -> Revision | None:
    """Publish operations as the system, skipping those that fail; return None if none remains.

    author: the system, by the name of the rule that decided.

    Skipped operations (for example, the name is in use or the entry archived by now) are logged with the reason.
    """
    with transaction.atomic():
        policy = lock_policy(policy_id)
        tree, settings = load_revision(policy, policy.head_number)
        archived = partial(load_archived, policy)
        fitting, left_out = _split_applicable(tree, operations, settings, archived)
        for operation, error in left_out[:_MOST_LEFT_OUT]:
            record(
                actor=author,
                verb="policy.automatic",
                at=at,
                policy_slug=policy.slug,
                outcome="failed",
                reason=error.message,
                details={"operation": dict(operation), "n_left_out": len(left_out)},
            )
        if not fitting:
            return None
        outcome = apply_operations(tree, fitting, settings=settings, archived=archived)
        if outcome.is_empty and outcome.settings == settings:
            return None
        new = NewChangeSet(operations=outcome.operations, reason=reason, origin=origin)
        change_set = new_change_set(policy, new, author, at)
        return merge_and_publish(change_set, author, at)


def _split_applicable(
    tree: TreeColumns, operations: Sequence[Operation], settings: PolicySettings, archived: Archived
) -> tuple[list[Operation], list[tuple[Operation, DomainError]]]:
    """Split operations into those that can be applied one after another, and the others with their errors.

    Tries all together, and halves if that fails: a thousand valid operations are applied once, not one by one.
    """
    fitting: list[Operation] = []
    left_out: list[tuple[Operation, DomainError]] = []
    waiting = [list(operations)]
    while waiting:
        some = waiting.pop()
        try:
            apply_operations(tree, [*fitting, *some], settings=settings, archived=archived)
            fitting += some
        except DomainError as error:
            if len(some) == 1:
                left_out.append((some[0], error))
            elif some:
                waiting += [some[len(some) // 2 :], some[: len(some) // 2]]
    return fitting, left_out


def apply_dates(*, at: datetime, zone: ZoneInfo) -> list[Revision]:
    """Apply start and end dates of shares, one change set per policy. A second run on the same day changes nothing."""
    today = at.astimezone(zone).date()
    published = []
    for policy in Policy.objects.filter(head_number__gt=0).order_by("pk"):
        operations = list(_due(load_tree(policy), today))
        if not operations:
            continue
        revision = publish_automatic(
            policy_id=policy.pk,
            operations=operations,
            origin=ChangeSet.Origin.DATES,
            at=at,
            reason=f"Dates of shares reached on {today.isoformat()}.",
        )
        if revision is not None:
            published.append(revision)
    return published


def _due(tree: TreeColumns, today: date) -> Iterator[dict[str, Any]]:
    """Yield operations for entries whose first day has come or whose last day has passed."""
    for i, dates in sorted(tree.dates.items()):
        uid = str(tree.uuid(i))
        if dates.ends_on is not None and dates.ends_on < today and dates.at_end != "keep":
            if dates.at_end == "archive":
                yield {"op": "archive", "entry": uid}
                continue
            yield {"op": "set_shares", "entry": uid, "shares": 0 if dates.at_end == "zero" else dates.at_end}
            yield {"op": "set_dates", "entry": uid, "dates": None}
        elif dates.shares is not None and dates.starts_on is not None and dates.starts_on <= today:
            yield {"op": "set_shares", "entry": uid, "shares": dates.shares}
            yield {"op": "set_dates", "entry": uid, "dates": replace(dates, shares=None).to_json()}


def has_ended(dates: Dates, today: date) -> bool:
    """Return whether the last day has passed; entries with at_end `keep` then still have their shares."""
    return dates.ends_on is not None and dates.ends_on < today
