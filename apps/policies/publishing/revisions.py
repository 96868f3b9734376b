"""Write a revision in the caller's transaction: close and open entry rows, store the tree, move the head, send the
signal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.dispatch import Signal
from psycopg.types.json import Jsonb

from apps.accounts.actor import Actor
from apps.accounts.audit_log import record
from apps.core.errors import Conflict
from apps.core.postgresql import analyze_grown, analyze_unexpected
from apps.policies.access.scope import refuse_archived
from apps.policies.models import Adjustment, Allocation, ChangeSet, Policy, Revision
from apps.policies.operations.adjustment_edits import AdjustmentChange, RevokedAdjustment
from apps.policies.operations.allocation_edits import AllocationEdit
from apps.policies.operations.apply import Outcome
from apps.policies.publishing.units_in_use import refuse_unit_in_use
from apps.policies.settings import PolicySettings, refuse_unsuitable_tree
from apps.policies.tree.columns import Node, TreeColumns, pack_tree
from apps.policies.tree.stored import tree_cache
from apps.runs.fault_points import fault_point

# Sent after the publish is committed, with the arguments policy and revision.
policy_published = Signal()
PublishStep = Callable[[Policy, Revision], None]
_steps: list[PublishStep] = []

_COLUMNS = (
    "policy_id",
    "uid",
    "parent_uid",
    "name",
    "kind",
    "shares",
    "is_group",
    "scope",
    "scope_sources",
    "locked",
    "dates",
    "members",
    "mount",
    "since",
)
_TYPES = (
    "int8",
    "uuid",
    "uuid",
    "varchar",
    "varchar",
    "float8",
    "bool",
    "varchar",
    "jsonb",
    "bool",
    "jsonb",
    "jsonb",
    "jsonb",
    "int4",
)
_MANY = 200  # opened entries; for a plan that expects one of them, the check of fifteen hundred takes a second
_GUARDS = "policies_revision_is_a_tree, policies_policy_head_is_published"
_EMPTY = Jsonb([])
LONGEST_STORED_REASON = 512
_ALLOCATION_FIELDS = (
    "entry_uid",
    "starts_on",
    "ends_on",
    "amount",
    "unit",
    "by_rules",
    "carried_from",
    "reason",
    "author",
    "author_name",
    "withdrawn_at",
)


def register_publish_step(step: PublishStep) -> None:
    """Register a step that runs in the transaction of each publish; if it fails, nothing is published."""
    if step not in _steps:
        _steps.append(step)


@dataclass(frozen=True)
class NextRevision:
    """A revision to be published: the whole tree, and the rows that differ from the head."""

    tree: TreeColumns
    settings: PolicySettings
    closed: Sequence[UUID]
    opened: Iterable[Node]
    n_opened: int
    n_changed: int
    adjusting: Sequence[AdjustmentChange] = ()
    allocating: Sequence[AllocationEdit] = ()

    @classmethod
    def of_outcome(cls, outcome: Outcome) -> NextRevision:
        changes = outcome.changes
        closed = [uid for uid, (before, _) in changes.items() if before is not None]
        opened = [after for _, after in changes.values() if after is not None]
        return cls(
            outcome.tree,
            outcome.settings,
            closed,
            opened,
            len(opened),
            len(changes),
            outcome.adjusting,
            outcome.allocating,
        )


def lock_policy(policy_id: int, *, also_archived: bool = False, to_remove: bool = False) -> Policy:
    """Lock the policy, so that only one publisher runs at a time; others wait.

    to_remove: also wait for transactions that write rows which refer to it, such as drafts.

    Raises:
        Archived: the policy is archived, and `also_archived` isn't set.
    """
    policy = Policy.all_objects.select_for_update(no_key=not to_remove).get(pk=policy_id)
    if not also_archived:
        refuse_archived(policy)
    return policy


def publish_revision(
    *, policy: Policy, change_set: ChangeSet, following: NextRevision, actor: Actor, reason: str, at: datetime
) -> Revision:
    """Write the next revision; everything that publishes ends here. The caller has locked the policy and checked all
    rights."""
    refuse_unsuitable_tree(following.tree, following.settings.algorithm, policy)
    number = policy.head_number + 1
    tree = replace(following.tree, policy_slug=policy.slug, number=number)
    _close(policy, following.closed, number)
    fault_point("policies.publish.after_close")
    _open(policy, following.opened, following.n_opened, number)
    fault_point("policies.publish.after_open")
    blob, digest = pack_tree(tree)
    revision = Revision.objects.create(
        policy=policy,
        number=number,
        change_set=change_set,
        author=actor.user,
        author_name=actor.name,
        reason=reason,
        published_at=at,
        n_entries=len(tree),
        n_changed=following.n_changed,
        settings=following.settings.to_json(),
        tree=blob,
        tree_digest=digest,
    )
    _adjust(policy, following.adjusting, number, actor, reason, at)
    _allocate(policy, following.allocating, actor, reason, at)
    refuse_unit_in_use(policy, following.settings.units)
    policy.head_number = number
    policy.save(update_fields=["head_number"])
    _check_constraints_now()
    fault_point("policies.publish.after_head")
    change_set.state = ChangeSet.State.PUBLISHED
    change_set.version += 1
    change_set.updated_at = at
    change_set.save(update_fields=["state", "version", "updated_at"])
    record(
        actor=actor,
        verb="policy.published",
        at=at,
        policy_slug=policy.slug,
        entry_uid=_only_entry(following),
        subject=f"{policy.slug} revision {number}",
        reason=reason,
        details={
            "revision": number,
            "change_set": change_set.pk,
            "tree_digest": digest,
            "n_closed": len(following.closed),
            "n_opened": following.n_opened,
            "operations": change_set.operations[:100],
        },
    )
    remembered_tree = replace(tree, digest=digest)
    for step in _steps:
        step(policy, revision)

    fault_point("policies.publish.before_commit")

    def signal_publication() -> None:
        fault_point("policies.publish.after_commit")
        tree_cache.put(remembered_tree)
        policy_published.send_robust(sender=Policy, policy=policy, revision=revision)

    transaction.on_commit(signal_publication)
    return revision


def _adjust(
    policy: Policy, adjusting: Sequence[AdjustmentChange], number: int, actor: Actor, reason: str, at: datetime
) -> None:
    for each in adjusting:
        if isinstance(each, RevokedAdjustment):
            standing = Adjustment.objects.filter(policy=policy, uid=each.uid, entry_uid=each.entry_uid, until=None)
            if not standing.update(until=number):
                raise Conflict(f"There is no active adjustment {each.uid} of this entry.", code="not_active")
            continue
        Adjustment.objects.create(
            policy=policy,
            uid=each.uid,
            entry_uid=each.entry_uid,
            resource=each.resource,
            amount_s=each.amount_s,
            at=each.at,
            note=each.note,
            reason=reason,
            author=actor.user,
            author_name=actor.name,
            created_at=at,
            since=number,
        )


def _allocate(policy: Policy, allocating: Sequence[AllocationEdit], actor: Actor, reason: str, at: datetime) -> None:
    """Write allocations; raise Conflict `allocation_changed` if one has another amount than the operation says."""
    if not allocating:
        return
    rows = Allocation.objects.filter(policy=policy, uid__in={each.uid for each in allocating})
    standing = {row.uid: row for row in rows if row.withdrawn_at is None}
    withdrawn = {row.uid: row for row in rows if row.withdrawn_at is not None}
    made: list[Allocation] = []
    for each in allocating:
        row = standing.get(each.uid)
        if each.was is None:
            if row is not None or (each.uid not in withdrawn and Allocation.objects.filter(uid=each.uid).exists()):
                raise Conflict(f"There is an allocation {each.uid} already.", code="allocation_exists")
            row = withdrawn.pop(each.uid, None) or Allocation(policy=policy, uid=each.uid, created_at=at)
            assert each.amount is not None, "as it was read"  # noqa: S101 - an invariant, not input
            assert each.starts_on is not None and each.ends_on is not None, "as it was read"  # noqa: S101, PT018
            row.starts_on, row.ends_on, row.withdrawn_at = each.starts_on, each.ends_on, None
            row.entry_uid, row.unit, row.carried_from = each.entry_uid, each.unit, each.carried_from
            row.reason, row.author, row.author_name = reason[:LONGEST_STORED_REASON], actor.user, actor.name
            row.amount = each.amount
            standing[row.uid] = row
            made.append(row)
            continue
        if row is None or (row.entry_uid, row.amount) != (each.entry_uid, each.was):
            message = f"Allocation {each.uid} of this entry has not the amount {each.was:g} any more: load it again."
            raise Conflict(message, code="allocation_changed")
        if each.amount is None:
            row.withdrawn_at = at
            del standing[row.uid]
            withdrawn[row.uid] = row
            continue
        row.by_rules += each.amount - each.was if each.rule and row.carried_from is None else 0.0
        row.amount = each.amount
    changed = [row for row in (*standing.values(), *withdrawn.values()) if not row._state.adding]
    Allocation.objects.bulk_create([row for row in made if row._state.adding])
    Allocation.objects.bulk_update(changed, _ALLOCATION_FIELDS, batch_size=1_000)


def _only_entry(following: NextRevision) -> UUID | None:
    """Return the only changed entry, so that the audit log finds the revision by it; None for several."""
    uids = set(following.closed[:2]) | {node.uid for node in following.opened} if following.n_opened <= 1 else set()
    return uids.pop() if len(uids) == 1 else None


def _close(policy: Policy, uids: Sequence[UUID], number: int) -> None:
    if not uids:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE policies_entry SET until = %s WHERE policy_id = %s AND until IS NULL AND uid = ANY(%s)",
            [number, policy.pk, list(uids)],
        )
        if cursor.rowcount != len(uids):
            raise RuntimeError(f"{policy.slug}: {len(uids)} entries to close, {cursor.rowcount} found.")


def _open(policy: Policy, nodes: Iterable[Node], n: int, number: int) -> None:
    if not n:
        return
    statement = f"COPY policies_entry ({', '.join(_COLUMNS)}) FROM STDIN (FORMAT BINARY)"
    # Django wraps errors of calls alone, not those of entering and writing a COPY.
    with connection.wrap_database_errors, connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(_TYPES)
        for node in nodes:
            copy.write_row(_row(policy.pk, node, number))
    analyze_grown("policies_entry")  # both for the check of the whole tree
    if n > _MANY:
        analyze_unexpected("policies_entry", "policy_id", policy.pk, n)


def _row(policy_id: int, node: Node, number: int) -> tuple[Any, ...]:
    return (
        policy_id,
        node.uid,
        node.parent_uid,
        node.name,
        node.kind,
        node.shares,
        node.is_group,
        node.scope,
        _EMPTY if not node.scope_sources else Jsonb(list(node.scope_sources)),
        node.locked,
        None if node.dates is None else Jsonb(node.dates.to_json()),
        _EMPTY if not node.members else Jsonb([rule.stored() for rule in node.members]),
        None if node.mount is None else Jsonb(node.mount.to_json()),
        number,
    )


def _check_constraints_now() -> None:
    """Run the deferred constraint checks now, while the caller can still report a failure."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET CONSTRAINTS {_GUARDS} IMMEDIATE")
        cursor.execute(f"SET CONSTRAINTS {_GUARDS} DEFERRED")
