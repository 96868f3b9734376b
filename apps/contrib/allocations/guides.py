"""Guides to the pages of this plug-in."""

from __future__ import annotations

from apps.core.plugins import Addition
from apps.web.guides import Guide

GUIDES: dict[str, Addition[Guide]] = {
    "Allocations, Core-hours, Calendar": Addition(
        Guide(
            "Allocations, Core-hours, Calendar",
            "allocations allocations-calendar allocations-shares allocation capacities capacity entry-core-hours",
            (("core-hours", "allocations.md"),),
            ("GET policies/{policy}/allocations/table", "GET policies/{policy}/pack"),
        ),
        after="History, *Look back*",
    ),
}
