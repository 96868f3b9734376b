"""Promises turned into a draft: nobody is affected before it is published, and publishing asks for every right."""

from __future__ import annotations

from datetime import date, datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from apps.accounts.actor import Actor
from apps.errors import Invalid, NotAllowed
from apps.policies.allocations.capacities import capacities_of, core_hours
from apps.policies.allocations.converting import Conversion, convert, operations_of
from apps.policies.allocations.giving import allocations_of, period_of
from apps.policies.allocations.periods import Period, begins_at, day_of
from apps.policies.allocations.promises import add_up, promised_in
from apps.policies.allocations.records import Sight
from apps.policies.change_sets import require_reason
from apps.policies.columns import TreeColumns
from apps.policies.models import Allocation, ChangeSet, Policy
from apps.policies.scope import visible_entries
from apps.policies.selectors import get_policy
from apps.policies.services import make_change_set
from apps.policies.trees import load_tree


def get_conversion(
    *, policy_slug: str, parent_uid: UUID, period: Period, zone: ZoneInfo, rest: str = "spread", at: datetime,
    actor: Actor, sight: Sight = visible_entries,
) -> Conversion:  # fmt: skip
    """What the children of an entry are promised in a period, as shares. For who sees all of them."""
    policy = get_policy(slug=policy_slug, actor=actor)
    return _convert(policy, load_tree(policy), parent_uid, period, zone, rest, at, actor, sight)


def draft_shares(
    *, policy_slug: str, parent_uid: UUID, period: Period, zone: ZoneInfo, rest: str = "spread",
    at_end: str | float | None = None, reason: str, at: datetime, actor: Actor, sight: Sight = visible_entries,
) -> ChangeSet:  # fmt: skip
    """A draft of these shares. at_end: with last days too. A period that is still to come takes effect on its first."""
    policy = get_policy(slug=policy_slug, actor=actor)
    tree = load_tree(policy)
    conversion = _convert(policy, tree, parent_uid, period, zone, rest, at, actor, sight)
    operations = operations_of(conversion, at_end=at_end)
    if not operations:
        raise Invalid("The shares say what is promised already: nothing to draft.", code="nothing_to_change")
    later = period.starts_on > day_of(at, zone)
    return make_change_set(
        policy_slug=policy_slug, base_revision=tree.number, operations=operations, reason=require_reason(reason),
        effective_at=begins_at(period.starts_on, zone) if later else None, at=at, actor=actor,
    )  # fmt: skip


def _convert(
    policy: Policy, tree: TreeColumns, parent_uid: UUID, period: Period, zone: ZoneInfo, rest: str, at: datetime,
    actor: Actor, sight: Sight,
) -> Conversion:  # fmt: skip
    visible = sight(policy=policy, tree=tree, actor=actor, at=at)
    parent = visible.require(tree.index_of_uid(parent_uid))
    children = tree.children(parent)
    if not all(visible.may_see(i) for i in children):
        raise NotAllowed("You see a part of this group only, and shares are divided among all of it.")
    allocations = allocations_of(policy)
    capacities = capacities_of(policy)
    capacity = core_hours(capacities, period, zone) if capacities else None
    sums = add_up(tree, promised_in(allocations, period, zone), capacity)
    promised = {i: float(sums.committed[i]) for i in children if sums.is_promised[i]}
    own = float(sums.own[parent])
    has = own if own == own else None
    return convert(tree, parent, promised, has, rest=rest, last_days=_last_days(tree, children, allocations, period))


def _last_days(tree: TreeColumns, children: range, allocations: list[Allocation], period: Period) -> dict[int, date]:
    """The last day of what each child is promised in a period."""
    found: dict[int, date] = {}
    for allocation in allocations:
        i = tree.index_of_uid(allocation.entry_uid)
        if i is not None and i in children and period_of(allocation).overlap(period) is not None:
            found[i] = max(found.get(i, allocation.ends_on), allocation.ends_on)
    return found
