"""Notices of allocations: those that end without a successor, and those that are used up. Loaded by the plug-in of
notices alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.contrib.allocations.current import Current, current_of, hours_of
from apps.contrib.allocations.models import RuleStep
from apps.contrib.allocations.services import allocations_of
from apps.contrib.allocations.summary import ending_soon
from apps.contrib.allocations.units import policy_units
from apps.contrib.notices import audience
from apps.contrib.notices.kind import Finding, Kind, PolicyPlace, Sentence, Term
from apps.contrib.notices.sentences import day_text
from apps.policies.units import CORE_HOUR
from apps.priorities.delivered_usage import load_delivered
from apps.priorities.sentences.numbers import count
from apps.priorities.sentences.numbers import percent as percent_text

_FURTHEST_DAYS = 366
_CLOSE_DAYS = 7  # before an end, from which on the level is a warning
# Names of facts before there were units, which notices in core-hours still have.
_FORMER = {"amount": "core_h", "used": "used_core_h"}


def find_ending(place: PolicyPlace) -> Iterable[Finding]:
    """Allocations without a successor, until a month after their end."""
    tree = place.tree
    everything = np.ones(len(tree), dtype=np.bool_)
    for event in ending_soon(tree, everything, allocations_of(place.policy), place.today, _FURTHEST_DAYS):
        days_left = (event.on - place.today).days
        if event.allocation is None or event.is_covered or days_left > place.terms["days"]:
            continue
        facts = {
            "allocation": str(event.allocation.uid),
            "path": event.path,
            "ends_on": event.on.isoformat(),
            **_facts_in_unit(event.allocation.unit, amount=event.allocation.amount),
            "is_over": days_left < 0,
        }
        level = "warn" if days_left <= _CLOSE_DAYS else "info"
        yield Finding(str(event.allocation.uid), level, facts, event.uid)  # type: ignore[arg-type]  # one of the two


def find_over_budget(place: PolicyPlace) -> Iterable[Finding]:
    """Entries that used more than the limit of their allocations of today in a unit, named by the last to end."""
    zone, by_entry = ZoneInfo(settings.TIME_ZONE), defaultdict(list)
    for allocation in allocations_of(place.policy):
        by_entry[allocation.unit, allocation.entry_uid].append(allocation)
    for unit in policy_units(place.policy):
        current: dict[int, Current] = {}
        for (symbol, uid), rows in by_entry.items():
            i, own = place.tree.index_of_uid(uid), current_of(rows, place.today) if symbol == unit.symbol else None
            if i is not None and own is not None and own.holding.on == place.today and own.holding.amount > 0:
                current[i] = own
        if not current:
            continue
        instants = {min(at, place.at) for own in current.values() for at in own.instants(zone)}
        delivered = load_delivered(
            policy=place.policy, tree=place.tree, entries=list(current), edges=sorted({*instants, place.at}), unit=unit
        )
        for i, own in current.items():
            amount, used = own.holding.amount, own.used(hours_of(delivered, i, zone, place.at), place.today)
            if used * 100 > place.terms["percent"] * amount:
                last = max(own.allocations, key=lambda each: (each.ends_on, each.pk))
                facts = {
                    "allocation": str(last.uid),
                    "path": place.tree.path(i),
                    **_facts_in_unit(unit.symbol, amount=amount, used=round(used, 2)),
                    "ends_on": last.ends_on.isoformat(),
                }
                yield Finding(str(last.uid), "warn", facts, last.entry_uid)


def _facts_in_unit(unit: str, **amounts: float) -> dict[str, Any]:
    """Amounts with their unit; those in core-hours under their former names, too, for what reads webhooks."""
    former = {_FORMER[name]: value for name, value in amounts.items()} if unit == CORE_HOUR.symbol else {}
    return {**amounts, **former, "unit": unit}


def _amount(facts: Mapping[str, Any], name: str) -> str:
    """An amount of a notice, which may be of before there were units."""
    return count(facts[name] if name in facts else facts[_FORMER[name]])


def _quantity(facts: Mapping[str, Any]) -> str:
    """The allocation with its unit; notices of before units are in core-hours."""
    return f"{_amount(facts, 'amount')} {facts.get('unit', CORE_HOUR.symbol)}"


def describe_ending(facts: Mapping[str, Any]) -> Sentence:
    values = {"path": facts["path"], "day": day_text(facts["ends_on"]), "hours": _quantity(facts)}
    text = _("%(path)s: %(hours)s are allocated until %(day)s; no renewal is planned.") % values
    return Sentence("ending_allocations.over" if facts["is_over"] else "ending_allocations.ends", facts, text)


def describe_over_budget(facts: Mapping[str, Any]) -> Sentence:
    values = {
        "path": facts["path"],
        "day": day_text(facts["ends_on"]),
        "hours": _quantity(facts),
        "used": _amount(facts, "used"),
    }
    text = _("%(path)s has used %(used)s of the %(hours)s that it has until %(day)s.") % values
    return Sentence("over_budget", facts, text)


def find_rule_levels(place: PolicyPlace) -> Iterable[Finding]:
    """Levels of rules that entries are at and that notify; a level is another condition each time it is reached."""
    since = place.at - timedelta(days=place.terms["days"])
    steps = RuleStep.objects.filter(policy=place.policy).exclude(level=None)
    for step in steps.order_by("rule", "entry_uid", "-pk").distinct("rule", "entry_uid"):
        percent, i = step.facts["percent"], place.tree.index_of_uid(step.entry_uid)
        if percent is None or i is None or step.at < since:
            continue
        facts = {
            "path": place.tree.path(i),
            "rule": step.rule,
            "percent": percent,
            "revision": step.number,
            "on": step.on.isoformat(),
        }
        yield Finding(f"{step.entry_uid}:{step.pk}", "info" if step.number is None else "warn", facts, step.entry_uid)


def describe_rule_level(facts: Mapping[str, Any]) -> Sentence:
    words = {
        **facts,
        "percent": percent_text(facts["percent"] / 100, 0 if facts["percent"] % 1 == 0 else 1),
        "day": day_text(facts["on"]),
    }
    if facts["revision"] is None:
        text = _("%(path)s has used %(percent)s of its allocation (%(day)s, rule %(rule)s).") % words
    else:
        text = _("%(path)s has used %(percent)s of its allocation: rule %(rule)s acted on %(day)s.") % words
    return Sentence("rule_levels.acted" if facts["revision"] else "rule_levels.reached", facts, text)


ENDING = Kind(
    name="ending_allocations",
    title=gettext_lazy("Expiring allocations"),
    about=gettext_lazy("An allocation ends, and no further one is made."),
    watches="policy",
    find=find_ending,
    is_for=audience.concerned,
    describe=describe_ending,
    leads_to="allocations",
    terms=(Term("days", gettext_lazy("Notify ahead"), gettext_lazy("days"), 30, 1, _FURTHEST_DAYS),),
)
OVER_BUDGET = Kind(
    name="over_budget",
    title=gettext_lazy("Allocations that are used up"),
    about=gettext_lazy("An entry has used this percentage of what it was allocated."),
    watches="policy",
    find=find_over_budget,
    is_for=audience.concerned_with_numbers,
    describe=describe_over_budget,
    leads_to="allocations",
    terms=(Term("percent", gettext_lazy("Threshold"), gettext_lazy("%"), 100, 1, 1000, is_whole=False),),
)
RULE_LEVELS = Kind(
    name="rule_levels",
    title=gettext_lazy("Thresholds of rules"),
    about=gettext_lazy("An allocation has reached a percentage at which a rule notifies."),
    watches="policy",
    find=find_rule_levels,
    is_for=audience.concerned_with_numbers,
    describe=describe_rule_level,
    leads_to="allocations",
    terms=(Term("days", gettext_lazy("Listed for"), gettext_lazy("days"), 30, 1, _FURTHEST_DAYS),),
)
