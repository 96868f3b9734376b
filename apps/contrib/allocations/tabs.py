"""Tabs of core-hours: those of the place of allocations, and those of an entry."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from django.utils.translation import gettext_lazy as _

from apps.core.plugins import Addition
from apps.web.shell.places import ENTRY, ENTRY_NAMES, POLICY_NAMES, Tab

TABS: Mapping[str, Addition[Tab]] = {
    "allocations": Addition(
        Tab(
            place="allocations",
            label=_("Core-hours"),
            title=_("Allocations"),
            names=POLICY_NAMES,
            pages=("allocation",),
            key="a",
            is_shown=attrgetter("sees_entries"),
        )
    ),
    "allocations-calendar": Addition(
        Tab(place="allocations", label=_("Calendar"), names=POLICY_NAMES), after="allocations"
    ),
    "capacities": Addition(
        Tab(
            place="allocations",
            label=_("Capacity"),
            names=POLICY_NAMES,
            pages=("capacity",),
            is_shown=attrgetter("reads_whole"),
        ),
        after="allocations-calendar",
    ),
    "allocations-shares": Addition(
        Tab(
            place="allocations",
            label=_("Convert to shares"),
            names=POLICY_NAMES,
            is_shown=attrgetter("edits"),
        ),
        after="capacities",
    ),
    "entry-core-hours": Addition(
        Tab(place=ENTRY, label=_("Core-hours"), names=ENTRY_NAMES, pages=("entry-allocation", "entry-dates")),
        after="entry-convergence",
    ),
}
