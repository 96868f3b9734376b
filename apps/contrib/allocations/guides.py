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
            ("GET policies/{policy}/allocations/table",),
        ),
        after="History, *Look back*",
    ),
    "Committee pack": Addition(
        Guide(
            "Committee pack",
            "pack shared-pack",
            (("a pack for the board", "allocations.md#a-pack-for-the-board"),),
            ("GET policies/{policy}/pack",),
        ),
        after="Allocations, Core-hours, Calendar",
    ),
}
