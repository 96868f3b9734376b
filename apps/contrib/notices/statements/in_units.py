"""Usage of a month in each unit of the policy, beside statements, which are in the policy's metric.

Delivered is raw usage, as in the table of allocations: amounts of two units stand side by side and are never added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Annotated

from apps.policies.units import units_of
from apps.priorities.delivered_usage import load_delivered
from apps.priorities.selectors.rows import PolicyView
from apps.series.days import site_zone
from apps.series.months import Month

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class InUnit:
    unit: Annotated[str, "Symbol of a unit of the policy"]
    delivered: Annotated[float, "Usage of the month as recorded, in hours of the unit"]


def delivered_in_units(view: PolicyView, entries: Sequence[int], month: Month) -> Mapping[int, tuple[InUnit, ...]]:
    """By entry; nothing in a policy that has the core-hour alone, and of entries that the reader sees in sums only."""
    units = units_of(view.settings.units)
    shown = [i for i in entries if view.visibility.outright[i]]
    if len(units) < 2 or not shown:
        return {}
    zone = site_zone()
    days = (month.first_on, month.last_on + timedelta(days=1))
    starts_at, ends_at = (datetime.combine(on, time(), tzinfo=zone).astimezone(UTC) for on in days)
    edges = [starts_at, min(ends_at, view.now)]
    if edges[1] <= edges[0]:
        return {}
    used = [load_delivered(policy=view.policy, tree=view.tree, entries=shown, edges=edges, unit=unit) for unit in units]
    return {
        i: tuple(
            InUnit(unit.symbol, of_unit.between(i, *edges) / _HOUR_S)
            for unit, of_unit in zip(units, used, strict=True)
            if of_unit.has_any
        )
        for i in shown
    }
