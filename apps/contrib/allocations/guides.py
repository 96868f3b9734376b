"""Guides to the pages of this plug-in."""

from __future__ import annotations

from apps.core.plugins import Addition
from apps.web.links.guides import Guide

GUIDES: dict[str, Addition[Guide]] = {
    "Allocations, Units, Calendar": Addition(
        Guide(
            "Allocations, Units, Calendar",
            "allocations allocations-periods allocations-calendar allocations-shares allocation allocation-file "
            "allocation-file-download "
            "allocation-units allocation-rules capacities capacity entry-core-hours",
            (("allocations", "allocations.md"),),
            (
                "GET policies/{policy}/allocations/table",
                "GET me/allocations",
                "POST policies/{policy}/allocations/portal-usage",
                "GET me/balances.json",
                "PUT policies/{policy}/allocations/file",
                "GET policies/{policy}/pack",
            ),
        ),
        after="History, *Look back*",
    ),
}
