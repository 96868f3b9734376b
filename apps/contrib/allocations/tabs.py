"""Tabs of core-hours: those of the place of allocations, and those of an entry."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from django.utils.translation import gettext_lazy as _

from apps.contrib.allocations.hours_requests import OPEN_POLICY_IDS, count_open_requests
from apps.core.plugins import Addition
from apps.web.shell.places import ENTRY, ENTRY_NAMES, POLICY_NAMES, Counter, Tab

TABS: Mapping[str, Addition[Tab]] = {
    "allocations": Addition(
        Tab(
            place="allocations",
            label=_("Allocations"),
            title=_("Allocations"),
            names=POLICY_NAMES,
            pages=("allocation", "allocations-periods", "allocations-shares"),
            key="a",
            is_shown=attrgetter("sees_entries"),
            counter=Counter(_("to decide"), OPEN_POLICY_IDS, count_open_requests),
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
    "allocation-units": Addition(
        Tab(place="allocations", label=_("Units"), names=POLICY_NAMES, is_shown=attrgetter("reads_whole")),
        after="capacities",
    ),
    "allocation-rules": Addition(
        Tab(place="allocations", label=_("Rules"), names=POLICY_NAMES, is_shown=attrgetter("reads_whole")),
        after="allocation-units",
    ),
    "allocation-file": Addition(
        Tab(place="allocations", label=_("Import and export"), names=POLICY_NAMES, is_shown=attrgetter("edits")),
        after="allocation-rules",
    ),
    "entry-core-hours": Addition(
        Tab(
            place=ENTRY,
            label=_("Allocations"),
            names=ENTRY_NAMES,
            pages=("entry-allocation", "entry-allocation-*", "entry-dates"),
        ),
        after="entry-convergence",
    ),
}
