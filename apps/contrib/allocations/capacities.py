"""Capacities: what a site has from one day to another, in a unit. Rows add up, so that an extension is one more row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.db import transaction

from apps.accounts.actor import Actor
from apps.accounts.audit_log import log_refusals, record
from apps.contrib.allocations.periods import LAST_DAY, Period
from apps.contrib.allocations.terms import (
    VisibilityOf,
    amount_of,
    may_decide,
    reason_of,
    refuse_days,
    tag_of_state,
    text_of,
)
from apps.contrib.allocations.units import find_unit, policy_units
from apps.core.errors import Conflict, NotAllowed, NotFound, Stale
from apps.policies.access.scope import WRITE, require_scope, visible_entries
from apps.policies.models import Capacity, Policy
from apps.policies.publishing.revisions import lock_policy
from apps.policies.selectors import get_policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from apps.policies.units import CORE_HOUR

MOST_CAPACITY_PER_HOUR = 1e12
_LONGEST_SITE = 128
_UNSET: Any = object()


def period_of(capacity: Capacity) -> Period:
    """Return the capacity's period, up to the last supported day if it has no end."""
    return Period(capacity.starts_on, capacity.ends_on or LAST_DAY)


def capacity_in(
    capacities: Iterable[Capacity], period: Period, zone: ZoneInfo, *, until: datetime | None = None
) -> float:
    """Return Σ units an hour × real hours of the days that a row and the period share, until an instant if given.

    The capacities are of one unit.
    """
    total = 0.0
    for capacity in capacities:
        shared = period_of(capacity).overlap(period)
        if shared is not None:
            total += capacity.per_hour * shared.hours(zone, until=until)
    return total


def list_capacities(
    *, policy_slug: str, at: datetime, actor: Actor, visibility: VisibilityOf = visible_entries
) -> list[Capacity]:
    """List capacities by first day and site; empty for users who see nothing of the tree."""
    policy = get_policy(slug=policy_slug, actor=actor)
    visible = visibility(policy=policy, tree=load_tree(policy), actor=actor, at=at)
    return capacities_of(policy) if visible.mask.any() else []


def capacities_of(policy: Policy) -> list[Capacity]:
    """Return the capacities of all units, by first day and site."""
    return list(Capacity.objects.filter(policy=policy).order_by("starts_on", "site", "pk"))


def may_add_capacity(*, policy: Policy, tree: TreeColumns, at: datetime, actor: Actor) -> bool:
    """Return whether the actor may record capacities: managers of the root, because they concern the whole tree."""
    return may_decide(policy=policy, tree=tree, i=0, at=at, actor=actor)


@dataclass(frozen=True, kw_only=True)
class CapacityTerms:
    """A new capacity of a site from the first to the last day (None: no end), and the reason.

    per_hour: units an hour, for core-hours the cores. unit: its symbol.
    """

    starts_on: date
    ends_on: date | None = None
    per_hour: float
    unit: str = CORE_HOUR.symbol
    site: str = ""
    note: str = ""
    reason: str


@dataclass(frozen=True, kw_only=True)
class CapacityChange:
    """Fields of a capacity to be changed, and the reason. None leaves a field; `ends_on` None removes the last day."""

    starts_on: date | None = None
    ends_on: date | None = _UNSET
    per_hour: float | None = None
    site: str | None = None
    note: str | None = None
    reason: str


def add_capacity(*, policy_slug: str, terms: CapacityTerms, at: datetime, actor: Actor) -> Capacity:
    """Record additional capacity of a site from one day to another, or without an end; a repeated row is refused."""
    policy = get_policy(slug=policy_slug, actor=actor, scope=WRITE)
    with _refusals("capacity.stated", actor, at, policy), transaction.atomic():
        policy = _locked_policy(policy, actor, at)
        capacity = Capacity(policy=policy, starts_on=terms.starts_on, ends_on=terms.ends_on, site=terms.site)
        capacity.per_hour, capacity.unit = terms.per_hour, find_unit(policy_units(policy), terms.unit).symbol
        capacity.note, capacity.author_name, capacity.created_at = terms.note, actor.name, at
        _check(capacity)
        reason = reason_of(terms.reason)
        capacity.save()
        _log("capacity.stated", capacity, reason, at, actor)
    return capacity


def change_capacity(
    *,
    policy_slug: str,
    capacity_id: int,
    tag: str,
    change: CapacityChange,
    at: datetime,
    actor: Actor,
) -> Capacity:
    """Change the given fields. `tag` is that of the capacity the caller loaded."""
    policy = get_policy(slug=policy_slug, actor=actor, scope=WRITE)
    with _refusals("capacity.changed", actor, at, policy), transaction.atomic():
        policy = _locked_policy(policy, actor, at)
        capacity = _read_capacity(policy, capacity_id)
        _refuse_stale(capacity, tag)
        before = audit_details(capacity)
        capacity.starts_on = capacity.starts_on if change.starts_on is None else change.starts_on
        capacity.ends_on = capacity.ends_on if change.ends_on is _UNSET else change.ends_on
        capacity.per_hour = capacity.per_hour if change.per_hour is None else change.per_hour
        capacity.site = capacity.site if change.site is None else change.site
        capacity.note = capacity.note if change.note is None else change.note
        _check(capacity)
        reason = reason_of(change.reason)
        capacity.save()
        _log("capacity.changed", capacity, reason, at, actor, before=before)
    return capacity


def remove_capacity(*, policy_slug: str, capacity_id: int, tag: str, reason: str, at: datetime, actor: Actor) -> None:
    """Delete a capacity, also for the past. To record a switched-off machine, set its last day instead."""
    policy = get_policy(slug=policy_slug, actor=actor, scope=WRITE)
    with _refusals("capacity.removed", actor, at, policy), transaction.atomic():
        policy = _locked_policy(policy, actor, at)
        capacity = _read_capacity(policy, capacity_id)
        _refuse_stale(capacity, tag)
        _log("capacity.removed", capacity, reason_of(reason), at, actor)
        capacity.delete()


def get_capacity(
    *, policy_slug: str, capacity_id: int, at: datetime, actor: Actor, visibility: VisibilityOf
) -> Capacity:
    listed = list_capacities(policy_slug=policy_slug, at=at, actor=actor, visibility=visibility)
    capacity = next((each for each in listed if each.pk == capacity_id), None)
    if capacity is None:
        raise _missing()
    return capacity


def tag_of(capacity: Capacity) -> str:
    return tag_of_state(capacity.pk, *audit_details(capacity).values())


def audit_details(capacity: Capacity) -> dict[str, Any]:
    """Return a capacity's fields as in the audit log and in its tag."""
    return {
        "site": capacity.site,
        "starts_on": str(capacity.starts_on),
        "ends_on": str(capacity.ends_on) if capacity.ends_on else None,
        "per_hour": capacity.per_hour,
        "unit": capacity.unit,
        "note": capacity.note,
    }


def _locked_policy(policy: Policy, actor: Actor, at: datetime) -> Policy:
    require_scope(actor, WRITE)
    policy = lock_policy(policy.pk)
    _require_recorder(policy, actor, at)
    return policy


def require_recorder(*, policy_slug: str, at: datetime, actor: Actor) -> None:
    """Raise NotFound or NotAllowed for actors who may not record capacities of the policy."""
    require_scope(actor, WRITE)
    _require_recorder(get_policy(slug=policy_slug, actor=actor), actor, at)


def _require_recorder(policy: Policy, actor: Actor, at: datetime) -> None:
    tree = load_tree(policy)
    visible_entries(policy=policy, tree=tree, actor=actor, at=at).require(0)
    if not may_add_capacity(policy=policy, tree=tree, at=at, actor=actor):
        raise NotAllowed("Only managers of the whole policy can record its capacity.")


def _check(capacity: Capacity) -> None:
    refuse_days(capacity.starts_on, capacity.ends_on)
    capacity.per_hour = amount_of(capacity.per_hour, "per_hour", MOST_CAPACITY_PER_HOUR)
    capacity.site = text_of(capacity.site, "site", _LONGEST_SITE)
    capacity.note = text_of(capacity.note, "note")
    same = {
        "policy_id": capacity.policy_id,
        "site": capacity.site,
        "starts_on": capacity.starts_on,
        "unit": capacity.unit,
    }
    twins = Capacity.objects.filter(**same, ends_on=capacity.ends_on, per_hour=capacity.per_hour)
    if twins.exclude(pk=capacity.pk).exists():
        raise Conflict("The same capacity is already recorded for this site and these days.", code="capacity_exists")


def _read_capacity(policy: Policy, capacity_id: int) -> Capacity:
    capacity = Capacity.objects.filter(policy=policy, pk=capacity_id).first() if 0 < capacity_id < 2**63 else None
    if capacity is None:
        raise _missing()
    return capacity


def _missing() -> NotFound:
    return NotFound("There is no such capacity of this policy.")


def _refuse_stale(capacity: Capacity, tag: str) -> None:
    if tag != tag_of(capacity):
        raise Stale("Another person changed this capacity: load it again.")


def _refusals(verb: str, actor: Actor, at: datetime, policy: Policy) -> Any:
    return log_refusals(verb, actor, at, policy_slug=policy.slug)


def _log(
    verb: str, capacity: Capacity, reason: str, at: datetime, actor: Actor, before: dict[str, Any] | None = None
) -> None:
    record(
        actor=actor,
        verb=verb,
        at=at,
        policy_slug=capacity.policy.slug,
        subject=capacity.site or "the site",
        reason=reason,
        details={"capacity": capacity.pk, **audit_details(capacity)} | ({"before": before} if before else {}),
    )
