"""Refuses a revision without a unit that allocations or capacities have: their amounts would mean nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apps.core.errors import Conflict
from apps.policies.models import Allocation, Capacity, Policy
from apps.policies.units import units_of


def refuse_unit_in_use(policy: Policy, units: Sequence[Mapping[str, Any]]) -> None:
    """Raise Conflict `unit_in_use` if a current allocation or a capacity has none of these units or the core-hour."""
    known = [unit.symbol for unit in units_of(units)]
    allocations = Allocation.objects.filter(policy=policy, withdrawn_at=None).exclude(unit__in=known)
    capacities = Capacity.objects.filter(policy=policy).exclude(unit__in=known)
    used = sorted(allocations.values_list("unit", flat=True).union(capacities.values_list("unit", flat=True)))
    if used:
        message = (
            f"Allocations or capacities are in {', '.join(used)}: withdraw them before the unit is removed or its "
            "symbol is changed."
        )
        raise Conflict(message, code="unit_in_use")
