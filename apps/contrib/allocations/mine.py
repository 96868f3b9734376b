"""Allocations that a person uses: of the entries of the own accounts, of all above them, and of groups with a role."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from zoneinfo import ZoneInfo

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.contrib.allocations.board import BoardRow, rows_of
from apps.contrib.allocations.capacities import capacities_of
from apps.contrib.allocations.services import allocations_of
from apps.contrib.allocations.units import policy_units
from apps.core.errors import NotAllowed
from apps.policies.access.scope import list_own_levels
from apps.policies.selectors import list_policies
from apps.priorities.selectors.rows import open_view

MOST_OWN_ALLOCATIONS = 200


@dataclass(frozen=True, slots=True)
class OwnAllocation:
    """Current allocations of one entry in one unit, side by side with those in other units and never added to them."""

    policy: str
    policy_name: str
    unit: Annotated[str, "Symbol of the unit that all amounts of the row are in"]
    unit_name: str
    has_role: Annotated[bool, "The caller has a role at this entry or above it, such as that of a lead"]
    row: BoardRow


def list_own_allocations(*, zone: ZoneInfo, actor: Actor, policy_slug: str | None = None) -> list[OwnAllocation]:
    """By policy, groups with a role first, then by path and unit; at most `MOST_OWN_ALLOCATIONS`."""
    scope = Token.Scope.SELF_READ
    if actor.user is None or not actor.has_scope(scope):
        raise NotAllowed("Sign in, or use a token with self:read, to see your own allocations.")
    own_allocations: list[OwnAllocation] = []
    for policy in list_policies(actor=actor):
        if policy_slug is not None and policy.slug != policy_slug:
            continue
        allocations = allocations_of(policy)
        if not allocations:
            continue
        view = open_view(policy_slug=policy.slug, actor=actor, scope=scope)
        tree, visible = view.tree, view.visibility
        led = set(list_own_levels(policy=policy, tree=tree, actor=actor, at=view.now))
        own = {j for i in view.own_entries for j in (*tree.ancestors(i), i)}
        seen = [i for i in (own | led) - {0} if visible.may_see(i)]
        wanted = sorted(seen, key=lambda i: (i not in led, tree.path(i)))
        in_use = {each.unit for each in allocations}
        by_unit = [
            (unit, rows_of(view, zone, unit, allocations, capacities_of(policy), wanted))
            for unit in policy_units(policy)
            if unit.symbol in in_use and wanted
        ]
        for i in wanted:
            has_role = not led.isdisjoint({*tree.ancestors(i), i})
            own_allocations += [
                OwnAllocation(policy.slug, policy.name, unit.symbol, unit.name, has_role, rows[i])
                for unit, rows in by_unit
                if i in rows
            ]
    return own_allocations[:MOST_OWN_ALLOCATIONS]
