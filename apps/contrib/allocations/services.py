"""Allocate hours of a unit to an entry for some days; change and withdraw allocations. Each change needs a reason.

Allocations change no target and block nothing: more may be allocated than the capacity, and pages show it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts.actor import Actor
from apps.accounts.audit_log import log_refusals, record
from apps.contrib.allocations.periods import Period
from apps.contrib.allocations.terms import (
    VisibilityOf,
    amount_of,
    deciding,
    invalid,
    may_decide,
    reason_of,
    refuse_days,
    tag_of_state,
)
from apps.contrib.allocations.units import find_unit, policy_units
from apps.core.errors import Conflict, NotAllowed, NotFound, Stale
from apps.policies.access.scope import WRITE, require_scope, visible_entries
from apps.policies.changesets.change_sets import require_reason_to_publish
from apps.policies.models import Allocation, Policy, Revision
from apps.policies.operations.allocation_edits import MOST_ALLOCATED_AMOUNT
from apps.policies.publishing.revisions import lock_policy
from apps.policies.records import NewChangeSet
from apps.policies.selectors import get_policy
from apps.policies.services import make_change_set, publish_change_set
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from apps.policies.units import CORE_HOUR


def change_dates(
    *,
    policy_slug: str,
    entry_uid: UUID,
    dates: Mapping[str, Any] | None,
    reason: str,
    base_revision: int | None = None,
    at: datetime,
    actor: Actor,
) -> Revision:
    """Publish a change of an entry's dates. dates: see `terms.read_dates`; None removes them."""
    operation = {"op": "set_dates", "entry": str(entry_uid), "dates": None if dates is None else dict(dates)}
    event = {"policy_slug": policy_slug[:64], "entry_uid": entry_uid, "subject": f"dates of {entry_uid}"}
    with log_refusals("policy.published", actor, at, **event), transaction.atomic():
        draft = make_change_set(
            policy_slug=policy_slug,
            new=NewChangeSet(
                base_revision=base_revision, operations=[operation], reason=require_reason_to_publish(reason)
            ),
            at=at,
            actor=actor,
        )
        return publish_change_set(id=draft.pk, version=draft.version, at=at, actor=actor)


def period_of(allocation: Allocation) -> Period:
    return Period(allocation.starts_on, allocation.ends_on)


@dataclass(frozen=True, kw_only=True)
class AllocationTerms:
    """A new allocation: an amount of a unit from the first to the last day, and the reason. unit: its symbol."""

    starts_on: date
    ends_on: date
    amount: float
    unit: str = CORE_HOUR.symbol
    reason: str


@dataclass(frozen=True, kw_only=True)
class AllocationChange:
    """Fields of an allocation to be changed, None to leave them, and the reason."""

    starts_on: date | None = None
    ends_on: date | None = None
    amount: float | None = None
    reason: str


def create_allocation(
    *,
    policy_slug: str,
    entry_uid: UUID,
    terms: AllocationTerms,
    at: datetime,
    actor: Actor,
    visibility: VisibilityOf = visible_entries,
) -> Allocation:
    """Allocate an amount of a unit to an entry. Allocations for the same days add up; an identical one is refused."""
    policy = get_policy(slug=policy_slug, actor=actor, scope=WRITE)
    event = {"policy_slug": policy.slug, "entry_uid": entry_uid}
    with log_refusals("allocation.given", actor, at, **event), transaction.atomic():
        policy, tree = _locked(policy, actor)
        i = _decided(policy, tree, entry_uid, at, actor, visibility)
        allocation = Allocation(policy=policy, entry_uid=entry_uid, created_at=at)
        allocation.starts_on, allocation.ends_on, allocation.amount = terms.starts_on, terms.ends_on, terms.amount
        allocation.unit = find_unit(policy_units(policy), terms.unit).symbol
        allocation.author, allocation.author_name = actor.user, actor.name
        _check(allocation)
        allocation.reason = reason_of(terms.reason)
        allocation.save()
        _log("allocation.given", allocation, tree.path(i), allocation.reason, at, actor)
    return allocation


def change_allocation(
    *,
    policy_slug: str,
    allocation_uid: UUID,
    tag: str,
    change: AllocationChange,
    at: datetime,
    actor: Actor,
    visibility: VisibilityOf = visible_entries,
) -> Allocation:
    """Change the given fields. `tag` is that of the allocation the caller loaded."""
    policy = get_policy(slug=policy_slug, actor=actor, scope=WRITE)
    subject = {"policy_slug": policy.slug, "subject": f"allocation {allocation_uid}"}
    with log_refusals("allocation.changed", actor, at, **subject), transaction.atomic():
        policy, tree = _locked(policy, actor)
        allocation, i = _allocation_to_change(policy, tree, allocation_uid, tag, at, actor, visibility)
        before = audit_details(allocation)
        allocation.starts_on = allocation.starts_on if change.starts_on is None else change.starts_on
        allocation.ends_on = allocation.ends_on if change.ends_on is None else change.ends_on
        allocation.amount = allocation.amount if change.amount is None else change.amount
        _check(allocation)
        allocation.reason = reason_of(change.reason)
        allocation.save()
        _log("allocation.changed", allocation, tree.path(i), allocation.reason, at, actor, before=before)
    return allocation


def withdraw_allocation(
    *,
    policy_slug: str,
    allocation_uid: UUID,
    tag: str,
    reason: str,
    at: datetime,
    actor: Actor,
    visibility: VisibilityOf = visible_entries,
) -> None:
    """Withdraw an allocation; the audit log preserves it. To end it earlier, change its last day instead."""
    policy = get_policy(slug=policy_slug, actor=actor, scope=WRITE)
    subject = {"policy_slug": policy.slug, "subject": f"allocation {allocation_uid}"}
    with log_refusals("allocation.withdrawn", actor, at, **subject), transaction.atomic():
        policy, tree = _locked(policy, actor)
        allocation, i = _allocation_to_change(policy, tree, allocation_uid, tag, at, actor, visibility)
        allocation.withdrawn_at = at
        allocation.save(update_fields=["withdrawn_at"])
        _log("allocation.withdrawn", allocation, tree.path(i), reason_of(reason), at, actor)


def allocations_of(policy: Policy) -> list[Allocation]:
    """Return the current allocations of all units, by first day.

    Those of archived entries are among them, and ignored in sums.
    """
    return list(policy.allocations.filter(withdrawn_at=None).order_by("starts_on", "ends_on", "pk"))


def list_allocations(
    *,
    policy_slug: str,
    entry_uid: UUID | None = None,
    below: bool = False,
    period: Period | None = None,
    at: datetime,
    actor: Actor,
    visibility: VisibilityOf = visible_entries,
) -> list[tuple[Allocation, str]]:
    """List allocations of entries that the actor sees, each with the entry's path, by path and first day.

    entry_uid: only of that entry; below: also of its descendants. period: only those that overlap it.
    """
    policy = get_policy(slug=policy_slug, actor=actor)
    tree = load_tree(policy)
    visible = visibility(policy=policy, tree=tree, actor=actor, at=at)
    wanted = visible.mask
    if entry_uid is not None:
        top = visible.require(tree.index_of_uid(entry_uid))
        of_entry = tree.subtree_mask(top)
        if not below:
            of_entry[:] = False
            of_entry[top] = True
        wanted = wanted & of_entry
    rows = []
    for allocation in allocations_of(policy):
        i = tree.index_of_uid(allocation.entry_uid)
        within = period is None or period_of(allocation).overlap(period) is not None
        if i is not None and wanted[i] and within:
            rows.append((allocation, tree.path(i)))
    return sorted(rows, key=lambda row: (row[1], row[0].starts_on, row[0].pk))


def get_allocation(
    *, policy_slug: str, allocation_uid: UUID, at: datetime, actor: Actor, visibility: VisibilityOf = visible_entries
) -> tuple[Allocation, str]:
    """Return a current allocation of an entry that the actor sees, with the entry's path."""
    policy = get_policy(slug=policy_slug, actor=actor)
    tree = load_tree(policy)
    allocation, i = _seen(policy, tree, allocation_uid, at, actor, visibility)
    return allocation, tree.path(i)


def allocation_permission(*, policy: Policy, tree: TreeColumns, at: datetime, actor: Actor) -> Callable[[int], bool]:
    """Return a predicate: whether the actor may allocate to an entry; never to the root."""
    may = deciding(policy=policy, tree=tree, at=at, actor=actor)
    return lambda i: i > 0 and not bool(tree.is_reserve[i]) and may(i)


def tag_of(allocation: Allocation) -> str:
    return tag_of_state(str(allocation.uid)[:8], *audit_details(allocation).values(), allocation.reason)


def audit_details(allocation: Allocation) -> dict[str, Any]:
    """Return an allocation's fields as in the audit log and in its tag."""
    return {
        "amount": allocation.amount,
        "unit": allocation.unit,
        "starts_on": str(allocation.starts_on),
        "ends_on": str(allocation.ends_on),
    }


def _locked(policy: Policy, actor: Actor) -> tuple[Policy, TreeColumns]:
    require_scope(actor, WRITE)
    policy = lock_policy(policy.pk)
    return policy, load_tree(policy)


def _decided(policy: Policy, tree: TreeColumns, uid: UUID, at: datetime, actor: Actor, visibility: VisibilityOf) -> int:
    """Return the entry's index if the actor may allocate to it."""
    i = visibility(policy=policy, tree=tree, actor=actor, at=at).require(tree.index_of_uid(uid))
    if i == 0:
        raise invalid("entry", "is the root, which has the capacity, recorded by site")
    if tree.is_reserve[i]:
        raise invalid("entry", "is a reserve, which has no allocation")
    if not may_decide(policy=policy, tree=tree, i=i, at=at, actor=actor):
        parent = tree.path(int(tree.parent[i]))
        raise NotAllowed(f"Only managers of {parent} or of an entry above it can allocate to {tree.path(i)}.")
    return i


def _seen(
    policy: Policy, tree: TreeColumns, uid: UUID, at: datetime, actor: Actor, visibility: VisibilityOf
) -> tuple[Allocation, int]:
    rows = Allocation.objects.select_related("policy")
    allocation = rows.filter(policy=policy, uid=uid, withdrawn_at=None).first()
    i = None if allocation is None else tree.index_of_uid(allocation.entry_uid)
    visible = visibility(policy=policy, tree=tree, actor=actor, at=at)
    if allocation is None or i is None or not visible.may_see(i):
        raise NotFound("There is no such allocation in this policy.")
    return allocation, i


def _allocation_to_change(
    policy: Policy, tree: TreeColumns, uid: UUID, tag: str, at: datetime, actor: Actor, visibility: VisibilityOf
) -> tuple[Allocation, int]:
    allocation, _ = _seen(policy, tree, uid, at, actor, visibility)
    i = _decided(policy, tree, allocation.entry_uid, at, actor, visibility)
    if tag != tag_of(allocation):
        raise Stale("Another person changed this allocation: load it again.")
    return allocation, i


def _check(allocation: Allocation) -> None:
    refuse_days(allocation.starts_on, allocation.ends_on)
    allocation.amount = amount_of(allocation.amount, "amount", MOST_ALLOCATED_AMOUNT)
    same = {"policy_id": allocation.policy_id, "entry_uid": allocation.entry_uid, "withdrawn_at": None}
    days = {"starts_on": allocation.starts_on, "ends_on": allocation.ends_on}
    twins = Allocation.objects.filter(**same, **days, unit=allocation.unit)
    if twins.filter(amount=allocation.amount).exclude(pk=allocation.pk).exists():
        raise Conflict("This entry already has the same allocation for the same days.", code="allocation_exists")


def _log(
    verb: str,
    allocation: Allocation,
    path: str,
    reason: str,
    at: datetime,
    actor: Actor,
    before: dict[str, Any] | None = None,
) -> None:
    record(
        actor=actor,
        verb=verb,
        at=at,
        policy_slug=allocation.policy.slug,
        entry_uid=allocation.entry_uid,
        subject=path,
        reason=reason,
        details={"allocation": str(allocation.uid), **audit_details(allocation)}
        | ({"before": before} if before else {}),
    )
