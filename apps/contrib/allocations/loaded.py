"""The allocations and capacities of a policy, loaded once for all that a page or an answer shows of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from apps.accounts.actor import Actor
from apps.contrib.allocations.capacities import capacities_of
from apps.contrib.allocations.services import allocations_of
from apps.contrib.allocations.units import policy_units
from apps.policies.models import Allocation, Capacity
from apps.policies.selectors import READ
from apps.policies.units import Unit
from apps.priorities.selectors.rows import PolicyView, open_view


@dataclass(frozen=True, eq=False)
class Loaded:
    """A policy as its reader sees it. allocations and capacities: of all units, also of hidden entries."""

    view: PolicyView

    @cached_property
    def allocations(self) -> list[Allocation]:
        return allocations_of(self.view.policy)

    @cached_property
    def capacities(self) -> list[Capacity]:
        return capacities_of(self.view.policy)

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        return policy_units(self.view.policy)


def open_allocations(*, policy_slug: str, actor: Actor, scope: str = READ) -> Loaded:
    """Raises NotFound if the policy is hidden from the reader. scope: required of a token."""
    return Loaded(open_view(policy_slug=policy_slug, actor=actor, scope=scope))
