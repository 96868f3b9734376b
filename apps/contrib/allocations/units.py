"""Which units a policy has, and which one a table or a page is in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from apps.contrib.allocations.terms import invalid
from apps.policies.changesets.change_sets import settings_of
from apps.policies.models import Allocation, Capacity, Policy
from apps.policies.units import CORE_HOUR, Unit, units_of

Amount = TypeVar("Amount", Allocation, Capacity)


def policy_units(policy: Policy) -> tuple[Unit, ...]:
    """The units that allocations of a policy can have: the core-hour first."""
    return units_of(settings_of(policy, policy.head_number).units)


def find_unit(units: Sequence[Unit], symbol: str) -> Unit:
    """The unit with this symbol; raises Invalid at `unit` if there is none."""
    unit = next((each for each in units if each.symbol == symbol), None)
    if unit is None:
        known = ", ".join(each.symbol for each in units)
        raise invalid("unit", f"must be a unit of the policy: {known}")
    return unit


def shown_unit(units: Sequence[Unit], symbol: str, rows: Iterable[Allocation | Capacity]) -> Unit:
    """The unit with this symbol; for "" the first that an allocation or a capacity has, else the core-hour."""
    if symbol:
        return find_unit(units, symbol)
    used = {row.unit for row in rows}
    return next((unit for unit in units if unit.symbol in used), CORE_HOUR)


def of_unit(rows: Iterable[Amount], unit: Unit) -> list[Amount]:
    """The allocations or capacities in this unit."""
    return [row for row in rows if row.unit == unit.symbol]
