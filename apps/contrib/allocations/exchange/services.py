"""Import allocations of a file: all of them or none, each with its own event in the audit log; list those to export."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import uuid4

from django.db import transaction

from apps.accounts.actor import Actor
from apps.accounts.audit_log import log_refusals, new_event, record_events
from apps.accounts.models import AuditEvent
from apps.contrib.allocations.exchange.lines import AllocationFile
from apps.contrib.allocations.exchange.plan import (
    AllocationPlan,
    PlannedAllocation,
    plan_allocations,
    refuse_problems,
)
from apps.contrib.allocations.services import audit_details, list_allocations
from apps.contrib.allocations.terms import VisibilityOf, reason_of
from apps.core.errors import Stale
from apps.policies.access.scope import WRITE, require_scope, visible_entries
from apps.policies.models import Allocation
from apps.policies.publishing.revisions import lock_policy
from apps.policies.selectors import get_policy

_VERBS = {"add": "allocation.given", "change": "allocation.changed", "withdraw": "allocation.withdrawn"}
_SAVED = ("amount", "starts_on", "ends_on", "reason", "withdrawn_at")


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """reason: of each allocation whose line has none. tag: of the plan that was shown; "": none was.

    withdraw_missing: see `plan_allocations`.
    """

    reason: str
    withdraw_missing: bool = False
    tag: str = ""


def import_allocations(
    *,
    policy_slug: str,
    file: AllocationFile,
    options: ImportOptions,
    at: datetime,
    actor: Actor,
    visibility: VisibilityOf = visible_entries,
) -> AllocationPlan:
    """Carry out the plan of a file; the same file again changes nothing.

    Raises:
        Invalid: with all problems of the file; nothing was imported.
        Stale: another plan was shown.
    """
    policy = get_policy(slug=policy_slug, actor=actor, scope=WRITE)
    with log_refusals("allocation.imported", actor, at, policy_slug=policy.slug), transaction.atomic():
        require_scope(actor, WRITE)
        lock_policy(policy.pk)
        plan = plan_allocations(
            policy_slug=policy_slug,
            file=file,
            withdraw_missing=options.withdraw_missing,
            at=at,
            actor=actor,
            visibility=visibility,
        )
        require_no_problems(plan)
        if options.tag and options.tag != plan.tag:
            raise Stale("The allocations were changed after the preview: review the new one, and import again.")
        if plan.changes:
            _carry_out(plan, reason_of(options.reason), at, actor)
    return plan


def require_no_problems(plan: AllocationPlan) -> None:
    refuse_problems(plan.problems)


def _carry_out(plan: AllocationPlan, reason: str, at: datetime, actor: Actor) -> None:
    current = Allocation.objects.filter(policy=plan.policy, withdrawn_at=None).in_bulk(
        [row.uid for row in plan.changes if row.action != "add"], field_name="uid"
    )
    added, changed, events = [], [], []
    for planned in plan.changes:
        row = replace(planned, reason=planned.reason or reason)
        if row.action == "add":
            allocation = _new(plan, row, at, actor)
            added.append(allocation)
            before = {}
        else:
            allocation = current[row.uid]
            before = {} if row.action == "withdraw" else {"before": audit_details(allocation)}
            _change(allocation, row, at)
            changed.append(allocation)
        events.append(_event(plan, row, allocation, before, at, actor))
    Allocation.objects.bulk_create(added, batch_size=1_000)
    Allocation.objects.bulk_update(changed, _SAVED, batch_size=1_000)
    record_events([*events, _summary(plan, reason, at, actor)])


def _new(plan: AllocationPlan, row: PlannedAllocation, at: datetime, actor: Actor) -> Allocation:
    return Allocation(
        policy=plan.policy,
        uid=row.uid or uuid4(),
        entry_uid=row.entry_uid,
        unit=row.unit,
        amount=row.amount,
        starts_on=row.starts_on,
        ends_on=row.ends_on,
        reason=row.reason,
        author=actor.user,
        author_name=actor.name,
        created_at=at,
    )


def _change(allocation: Allocation, row: PlannedAllocation, at: datetime) -> None:
    if row.action == "withdraw":
        allocation.withdrawn_at = at
    else:
        allocation.amount = max(0.0, row.amount + allocation.by_rules)
        allocation.reason = row.reason
        allocation.starts_on, allocation.ends_on = row.starts_on, row.ends_on


def _event(
    plan: AllocationPlan,
    row: PlannedAllocation,
    allocation: Allocation,
    before: dict[str, Any],
    at: datetime,
    actor: Actor,
) -> AuditEvent:
    return new_event(
        actor=actor,
        verb=_VERBS[row.action],
        at=at,
        policy_slug=plan.policy.slug,
        entry_uid=row.entry_uid,
        subject=row.path,
        reason=row.reason,
        details={"allocation": str(allocation.uid), **audit_details(allocation), **before},
    )


def _summary(plan: AllocationPlan, reason: str, at: datetime, actor: Actor) -> AuditEvent:
    return new_event(
        actor=actor,
        verb="allocation.imported",
        at=at,
        policy_slug=plan.policy.slug,
        subject=plan.policy.slug,
        reason=reason,
        details={str(action): n for action, n in plan.counts.items()},
    )


def list_exported(
    *, policy_slug: str, at: datetime, actor: Actor, visibility: VisibilityOf = visible_entries
) -> list[tuple[Allocation, str]]:
    """Allocations that people made, of entries that the actor sees, each with the path of its entry."""
    rows = list_allocations(policy_slug=policy_slug, at=at, actor=actor, visibility=visibility)
    return [(row, path) for row, path in rows if row.carried_from is None]
