"""Core-hours of a pack: allocated and delivered, lent and borrowed, and who held back whom.

`held_back`: for each day on which jobs of entry i waited, its unused entitlement (*missed*) is divided among the
siblings that used more than theirs, in proportion to what they borrowed:

    held_back[i, j] = Σ_d missed[i, d] · borrowed[j, d] / Σ_k borrowed[k, d]

over days that are visible to the actor for all of these entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from apps.accounts.actor import Actor
from apps.contrib.allocations.periods import Period
from apps.contrib.allocations.table import AllocationRow, get_allocation_table
from apps.contrib.notices.statements.selectors import AMOUNTS, lines_of
from apps.engine.convergence import fairness
from apps.engine.entitlement import entitlement
from apps.policies.tree.columns import Mask
from apps.policies.units import Unit
from apps.priorities.selectors.rows import PolicyView
from apps.series.days import site_zone
from apps.series.months import Month
from apps.series.stored_series import load_series, series_state
from apps.series.visible_days import as_visible

MOST_PACK_ROWS = 200
_MOST_READ_ROWS = 5_000  # rows of the core-hour table, including people
MOST_PAIRS = 20
_HOUR_S = 3600.0
_LEAST_H = 1e-6

Json = dict[str, Any]


def allocation_rows(view: PolicyView, i: int, period: Period, actor: Actor, people: Mask, unit: Unit) -> Json:
    """Allocations in one unit. is_cut: there are more groups than listed."""
    table = get_allocation_table(
        policy_slug=view.policy.slug,
        period=period,
        zone=site_zone(),
        actor=actor,
        of=view.tree.uuid(i),
        limit=_MOST_READ_ROWS,
        unit=unit.symbol,
    )
    rows = [row for row in table.rows if not people[view.tree.index_of_uid(row.entry) or 0]]
    suffix = "_core_h" if table.unit.is_core_hour else ""
    return {
        **({} if table.unit.is_core_hour else {"unit": table.unit.symbol, "unit_name": table.unit.name}),
        f"capacity{suffix}": table.capacity,
        "rows": [_allocation(row, suffix) for row in (table.group, *rows[:MOST_PACK_ROWS])],
        "is_cut": table.next_cursor is not None or len(rows) > MOST_PACK_ROWS,
    }


def _allocation(row: AllocationRow, suffix: str) -> Json:
    names = ("allocated", "due", "expected", "delivered", "remaining")
    return {
        "entry_uid": str(row.entry),
        "path": row.path,
        **{f"{name}{suffix}": getattr(row, name) for name in names},
        "pace": row.pace,
        "suppressed": row.suppressed,
    }


def balance_rows(view: PolicyView, entries: Sequence[int], months: Sequence[Month]) -> list[Json]:
    """Monthly statements summed over the months; null for an entry with a hidden month."""
    lines = lines_of(view, entries, months, series_state(view.policy).first_on)
    rows = []
    for i in entries:
        own = [lines[i, month] for month in months]
        hidden = any(line.suppressed for line in own)
        known = [] if hidden else [line.figures for line in own if line.figures is not None]
        sums = {f"{name}_h": sum(getattr(figures, name) for figures in known) / _HOUR_S for name in AMOUNTS}
        rows.append(
            {
                "entry_uid": str(view.tree.uuid(i)),
                "path": view.tree.path(i),
                **(sums if known else dict.fromkeys(sums)),
                "days": sum(figures.n_days for figures in known),
                "missing_days": sum(line.missing_days for line in own),
                "suppressed": hidden,
                "rounded": any(line.rounded for line in own),
            }
        )
    return rows


def fairness_among(rows: Sequence[Json]) -> Json | None:
    """How fair usage was among siblings, by entitlement and demand; None if one is hidden or left out, or without
    usage.

    Demand is what was used plus what was missed while jobs waited.
    """
    known = [row for row in rows if row["used_h"] is not None and row["entitled_h"]]
    if len(known) < 2 or any(row["suppressed"] for row in rows) or not any(row["used_h"] for row in known):
        return None
    entitled, used, missed = (np.array([row[f"{name}_h"] for row in known]) for name in ("entitled", "used", "missed"))
    measures = fairness(entitled, used, demand=used + missed)
    return {
        "jain": measures.jain,
        "gini": measures.gini,
        "misplaced_percent": measures.misplaced_points,
        "misplaced_with_demand_percent": measures.demand_error_points,
    }


def held_back_pairs(view: PolicyView, children: Sequence[int], period: Period) -> list[Json]:
    """The pairs with the largest amounts, largest first."""
    if len(children) < 2:
        return []
    uids = [view.tree.uuid(i) for i in children]
    series = load_series(view.policy, uids, from_on=period.starts_on, to_on=period.ends_on)
    if not series.days.on:
        return []
    series, visible = as_visible(series, view=view)
    is_counted = visible & series.exists & series.competes
    by_day = entitlement(series.target, series.used, series.peers_used)
    missed = np.where(is_counted & (series.waited_core_s > 0), by_day.unused, 0.0)
    borrowed = np.where(is_counted, by_day.borrowed, 0.0)
    whole = borrowed.sum(axis=0)
    part = np.divide(borrowed, whole, out=np.zeros_like(borrowed), where=whole > 0)
    amounts_h = missed @ part.T / _HOUR_S
    order = np.argsort(-amounts_h, axis=None, kind="stable")[:MOST_PAIRS]
    pairs = [divmod(int(n), len(children)) for n in order]
    return [
        {
            "path": view.tree.path(children[child]),
            "by_path": view.tree.path(children[other]),
            "amount_h": float(amounts_h[child, other]),
        }
        for child, other in pairs
        if amounts_h[child, other] > _LEAST_H
    ]
