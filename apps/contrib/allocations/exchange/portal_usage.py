"""Delivered usage in the terms of a portal: by its allocation and attribute, or by its resource and component."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import date, datetime
from zoneinfo import ZoneInfo

from apps.accounts.actor import Actor
from apps.contrib.allocations.balance import Grant, charged
from apps.contrib.allocations.current import hours_of
from apps.contrib.allocations.exchange.portals import PortalAmount, PortalState, UnitRule, child_path
from apps.contrib.allocations.periods import DAY, Period, begins_at, day_of
from apps.contrib.allocations.terms import VisibilityOf
from apps.contrib.allocations.units import policy_units
from apps.policies.access.scope import visible_entries
from apps.policies.selectors import get_policy
from apps.policies.tree.stored import load_tree
from apps.priorities.delivered_usage import load_delivered


def portal_usage(
    *,
    policy_slug: str,
    state: PortalState,
    rules: Mapping[str, UnitRule],
    below: str,
    since: date | None = None,
    zone: ZoneInfo,
    at: datetime,
    actor: Actor,
    visibility: VisibilityOf = visible_entries,
) -> dict[tuple[str, str], float]:
    """Usage by (id of the allocation or resource, attribute or component), in the portal's measure, ≥ 0.

    It is that of the entry on the days of the amount until `at`, from `since` on. Each hour is reported once: where
    amounts of an entry and unit have other days, it is charged as `balance` says, and of those with the same days each
    has a part in proportion to its amount. Entries that aren't there, or that the actor may not see, are left out, as
    are amounts without days and those that are no numbers.
    """
    policy = get_policy(slug=policy_slug, actor=actor)
    tree = load_tree(policy)
    visible = visibility(policy=policy, tree=tree, actor=actor, at=at)
    units = {unit.symbol: unit for unit in policy_units(policy)}
    by_unit: dict[str, dict[int, dict[Period, list[PortalAmount]]]] = {}
    for each in state.amounts:
        i, period = tree.index_of_path(child_path(below, each.group)), _period(each)
        if i is None or period is None or not visible.outright[i] or not isinstance(each.amount, float):
            continue
        if each.unit in units:
            entry = by_unit.setdefault(each.unit, {}).setdefault(i, {})
            entry.setdefault(period, []).append(each)
    used: dict[tuple[str, str], float] = defaultdict(float)
    today = day_of(at, zone)
    for unit, entries in by_unit.items():
        days = {day for periods in entries.values() for each in periods for day in (each.starts_on, each.ends_on + DAY)}
        edges = sorted({min(begins_at(day, zone), at) for day in days | ({since} if since else set())} | {at})
        delivered = load_delivered(policy=policy, tree=tree, entries=list(entries), edges=edges, unit=units[unit])
        for i, periods in entries.items():
            whole = [sum(each.amount for each in amounts) for amounts in periods.values()]
            grants = [Grant(each.starts_on, each.ends_on, amount) for each, amount in zip(periods, whole, strict=True)]
            hours_of_entry = hours_of(delivered, i, zone, at)
            hours = charged(grants, hours_of_entry, today + DAY)
            before = charged(grants, hours_of_entry, since) if since else [0.0] * len(grants)
            for amounts, total, now, then in zip(periods.values(), whole, hours, before, strict=True):
                for each in amounts:
                    part = each.amount / total if total else 1.0 / len(amounts)
                    used[each.of, each.attribute] += max(now - then, 0.0) * part / rules[each.attribute].factor
    return dict(used)


def _period(amount: PortalAmount) -> Period | None:
    days = [_day(value) for value in (amount.starts_on, amount.ends_on)]
    try:
        return None if days[0] is None or days[1] is None else Period(days[0], days[1])
    except ValueError:
        return None


def _day(value: date | str | None) -> date | None:
    try:
        return value if isinstance(value, date) else date.fromisoformat(value or "")
    except ValueError:
        return None
