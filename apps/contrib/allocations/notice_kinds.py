"""Notices of allocations: those that end without a successor, and those that are used up. Loaded by the plug-in of
notices alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.contrib.allocations.periods import HOUR
from apps.contrib.allocations.services import allocations_of, period_of
from apps.contrib.allocations.summary import ending_soon
from apps.contrib.notices import audience
from apps.contrib.notices.kind import Finding, Kind, PolicyPlace, Sentence, Term
from apps.contrib.notices.sentences import day_text
from apps.priorities.delivered_usage import load_delivered
from apps.priorities.sentences.numbers import count

_FURTHEST_DAYS = 366
_CLOSE_DAYS = 7  # before an end, from which on the level is a warning


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
            "core_h": event.allocation.core_h,
            "is_over": days_left < 0,
        }
        level = "warn" if days_left <= _CLOSE_DAYS else "info"
        yield Finding(str(event.allocation.uid), level, facts, event.uid)  # type: ignore[arg-type]  # one of the two


def find_over_budget(place: PolicyPlace) -> Iterable[Finding]:
    """Allocations of today of which more than the limit was delivered since their first day."""
    zone = ZoneInfo(settings.TIME_ZONE)
    current = [
        (allocation, i, period_of(allocation).instants(zone)[0])
        for allocation in allocations_of(place.policy)
        if allocation.starts_on <= place.today <= allocation.ends_on
        and allocation.core_h > 0
        and (i := place.tree.index_of_uid(allocation.entry_uid)) is not None
    ]
    if not current:
        return
    used = load_delivered(
        policy=place.policy,
        tree=place.tree,
        entries=[i for _allocation, i, _begins_at in current],
        edges=[place.at, *(begins_at for _allocation, _i, begins_at in current)],
    )
    for allocation, i, begins_at in current:
        used_core_h = used.between(i, begins_at, place.at) / HOUR.total_seconds()
        if used_core_h * 100 > place.terms["percent"] * allocation.core_h:
            facts = {
                "allocation": str(allocation.uid),
                "path": place.tree.path(i),
                "core_h": allocation.core_h,
                "used_core_h": round(used_core_h, 2),
                "ends_on": allocation.ends_on.isoformat(),
            }
            yield Finding(str(allocation.uid), "warn", facts, allocation.entry_uid)


def describe_ending(facts: Mapping[str, Any]) -> Sentence:
    values = {"path": facts["path"], "day": day_text(facts["ends_on"]), "hours": count(facts["core_h"])}
    text = _("%(path)s: %(hours)s core-hours are allocated until %(day)s; no renewal is planned.") % values
    return Sentence("ending_allocations.over" if facts["is_over"] else "ending_allocations.ends", facts, text)


def describe_over_budget(facts: Mapping[str, Any]) -> Sentence:
    values = {
        "path": facts["path"],
        "day": day_text(facts["ends_on"]),
        "hours": count(facts["core_h"]),
        "used": count(facts["used_core_h"]),
    }
    text = _("%(path)s has used %(used)s of the %(hours)s core-hours that it has until %(day)s.") % values
    return Sentence("over_budget", facts, text)


ENDING = Kind(
    name="ending_allocations",
    title=gettext_lazy("Expiring allocations"),
    about=gettext_lazy("Core-hours end, and no further ones are allocated."),
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
    about=gettext_lazy("An entry has used this percentage of the core-hours that it was allocated."),
    watches="policy",
    find=find_over_budget,
    is_for=audience.concerned_with_numbers,
    describe=describe_over_budget,
    leads_to="allocations",
    terms=(Term("percent", gettext_lazy("Threshold"), gettext_lazy("%"), 100, 1, 1000, is_whole=False),),
)
