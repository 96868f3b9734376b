"""Allocations turned into a draft: nothing changes before it is published, and publishing checks every right."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from apps.accounts.actor import Actor
from apps.core.errors import Invalid, NotAllowed
from apps.policies.access.scope import visible_entries
from apps.policies.allocations.allocation_sums import add_up, allocated_in
from apps.policies.allocations.capacities import capacities_of, core_hours
from apps.policies.allocations.conversion import Conversion, convert, operations_of, shares_beside
from apps.policies.allocations.periods import Period, begins_at, day_of
from apps.policies.allocations.records import VisibilityOf
from apps.policies.allocations.services import allocations_of, period_of
from apps.policies.changesets.change_sets import require_reason
from apps.policies.models import Allocation, ChangeSet, Policy
from apps.policies.selectors import get_policy
from apps.policies.services import make_change_set
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree


def get_conversion(
    *,
    policy_slug: str,
    parent_uid: UUID,
    period: Period,
    zone: ZoneInfo,
    rest: str = "spread",
    at: datetime,
    actor: Actor,
    visibility: VisibilityOf = visible_entries,
) -> Conversion:
    """Allocations of an entry's children in a period, as shares. For viewers who see all of them."""
    policy = get_policy(slug=policy_slug, actor=actor)
    return _convert(policy, load_tree(policy), parent_uid, period, zone, rest, at, actor, visibility)


def draft_shares(
    *,
    policy_slug: str,
    parent_uid: UUID,
    period: Period,
    zone: ZoneInfo,
    rest: str = "spread",
    at_end: str | float | None = None,
    reason: str,
    at: datetime,
    actor: Actor,
    visibility: VisibilityOf = visible_entries,
) -> ChangeSet:
    """A draft of these shares. at_end: with last days too. For a future period it takes effect on the first day."""
    policy = get_policy(slug=policy_slug, actor=actor)
    tree = load_tree(policy)
    conversion = _convert(policy, tree, parent_uid, period, zone, rest, at, actor, visibility)
    operations = operations_of(conversion, at_end=at_end)
    if not operations:
        raise Invalid("The shares match the allocations already: nothing to draft.", code="nothing_to_change")
    later = period.starts_on > day_of(at, zone)
    return make_change_set(
        policy_slug=policy_slug,
        base_revision=tree.number,
        operations=operations,
        reason=require_reason(reason),
        effective_at=begins_at(period.starts_on, zone) if later else None,
        at=at,
        actor=actor,
    )


@dataclass(frozen=True, slots=True)
class Trial:
    """What an amount of core-hours would be of a group; None where that can't be said."""

    core_h: float
    has_core_h: float | None  # of the group
    part: float | None  # of the group's core-hours
    part_of_whole: float | None  # of the capacity
    shares: float | None  # beside those of the group's children as they are
    sum_of_shares: float
    cores: float  # that run all the time from the first day to the last


def try_core_hours(
    *,
    policy_slug: str,
    parent_uid: UUID,
    core_h: float,
    period: Period,
    zone: ZoneInfo,
    at: datetime,
    actor: Actor,
    visibility: VisibilityOf = visible_entries,
) -> Trial:
    """Preview allocations without saving."""
    policy = get_policy(slug=policy_slug, actor=actor)
    tree = load_tree(policy)
    visible = visibility(policy=policy, tree=tree, actor=actor, at=at)
    parent = visible.require(tree.index_of_uid(parent_uid))
    capacity = _capacity(policy, period, zone)
    own = capacity if parent == 0 else allocated_in(allocations_of(policy), period, zone).get(parent_uid)
    children = tree.children(parent)
    total = float(tree.shares[children.start : children.stop].sum())
    part = core_h / own if own else None
    return Trial(
        core_h=core_h,
        has_core_h=own,
        part=part,
        part_of_whole=core_h / capacity if capacity else None,
        shares=None if part is None else shares_beside(part, total),
        sum_of_shares=total,
        cores=core_h / period.hours(zone),
    )


def _capacity(policy: Policy, period: Period, zone: ZoneInfo) -> float | None:
    """Core-hours of the whole tree in a period; None where no capacity is recorded."""
    capacities = capacities_of(policy)
    return core_hours(capacities, period, zone) if capacities else None


def _convert(
    policy: Policy,
    tree: TreeColumns,
    parent_uid: UUID,
    period: Period,
    zone: ZoneInfo,
    rest: str,
    at: datetime,
    actor: Actor,
    visibility: VisibilityOf,
) -> Conversion:
    visible = visibility(policy=policy, tree=tree, actor=actor, at=at)
    parent = visible.require(tree.index_of_uid(parent_uid))
    children = tree.children(parent)
    if not all(visible.may_see(i) for i in children):
        raise NotAllowed("You see a part of this group only, and shares are divided among all of it.")
    allocations = allocations_of(policy)
    sums = add_up(tree, allocated_in(allocations, period, zone), _capacity(policy, period, zone))
    promised = {i: float(sums.committed[i]) for i in children if sums.is_allocated[i]}
    own = float(sums.own[parent])
    has = own if own == own else None
    return convert(tree, parent, promised, has, rest=rest, last_days=_last_days(tree, children, allocations, period))


def _last_days(tree: TreeColumns, children: range, allocations: list[Allocation], period: Period) -> dict[int, date]:
    """The last day of each child's allocations in a period."""
    found: dict[int, date] = {}
    for allocation in allocations:
        i = tree.index_of_uid(allocation.entry_uid)
        if i is not None and i in children and period_of(allocation).overlap(period) is not None:
            found[i] = max(found.get(i, allocation.ends_on), allocation.ends_on)
    return found
