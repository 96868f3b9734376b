"""Replacing the current tree as a whole: for more changes than single operations allow, and for mounts."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction

from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.audit.log import record
from apps.core.errors import Stale
from apps.policies.changesets.change_sets import clean_reason, settings_of
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.operations.algorithm_fit import refuse_misfit
from apps.policies.operations.rule_reach import record_reach_of_tree
from apps.policies.operations.whole_trees import keep_tree, summary
from apps.policies.publishing.revisions import lock_policy
from apps.policies.selectors import get_policy
from apps.policies.services import move_on, new_change_set, replace_tree, require_admin
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.document_merge import next_revision
from apps.policies.tree.stored import load_tree


def publish_tree(
    *,
    policy_slug: str,
    tree: TreeColumns,
    settings: PolicySettings,
    base_revision: int,
    reason: str,
    origin: str,
    at: datetime,
    actor: Actor,
) -> Revision:
    """Publish at once, in place of the tree of `base_revision`, which must still be the head."""
    require_admin(actor, policy_slug)
    policy = get_policy(slug=policy_slug, actor=actor, scope="policies:write")
    with transaction.atomic():
        policy = lock_policy(policy.pk)
        if policy.head_number != base_revision:
            raise Stale(f"{policy.slug} is at revision {policy.head_number} by now, not {base_revision}: do it again.")
        head = load_tree(policy)
        tree = record_reach_of_tree(tree, head, at)
        return replace_tree(policy, next_revision(head, tree, settings), reason, origin, actor, at)


def propose_tree(
    *,
    policy_slug: str,
    tree: TreeColumns,
    settings: PolicySettings,
    base_revision: int,
    reason: str,
    origin: str,
    at: datetime,
    actor: Actor,
) -> ChangeSet:
    """A draft of the same: it can be published while `base_revision` is the head."""
    require_admin(actor, policy_slug)
    policy = get_policy(slug=policy_slug, actor=actor, scope="policies:write")
    base = load_tree(policy, base_revision)
    tree = record_reach_of_tree(tree, base, at)
    following = next_revision(base, tree, settings)
    refuse_misfit(tree, settings.algorithm)
    said = clean_reason(reason)
    with transaction.atomic():
        change_set = new_change_set(policy, base_revision, summary(following), said, None, actor, at, origin)
        keep_tree(change_set, tree, settings)
        record(
            actor=actor,
            verb="changeset.drafted",
            at=at,
            policy_slug=policy.slug,
            reason=said,
            subject=f"change set {change_set.pk}",
            details={"base": base_revision, "n_changed": following.n_changed},
        )
    return change_set


def land_mounted(*, policy: Policy, tree: TreeColumns, reason: str, at: datetime) -> Revision:
    """Publish at once, in the system's name: within limits that managers set. The caller has locked the policy."""
    settings = settings_of(policy, policy.head_number)
    following = next_revision(load_tree(policy), tree, settings)
    return replace_tree(policy, following, reason, ChangeSet.Origin.MOUNT, SYSTEM, at)


def hold_mounted(*, policy: Policy, tree: TreeColumns, mount_uid: UUID, reason: str, at: datetime) -> ChangeSet:
    """Propose, for managers who may mount there. The caller has locked the policy."""
    settings = settings_of(policy, policy.head_number)
    following = next_revision(load_tree(policy), tree, settings)
    refuse_misfit(tree, settings.algorithm)
    said = [{**operation, "mount": str(mount_uid)} for operation in summary(following)]
    change_set = new_change_set(
        policy, policy.head_number, said, clean_reason(reason), None, SYSTEM, at, ChangeSet.Origin.MOUNT
    )
    keep_tree(change_set, tree, settings)
    return move_on(change_set, ChangeSet.State.PROPOSED, SYSTEM, at, "changeset.proposed")
