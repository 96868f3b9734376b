"""Guides to the pages of this plug-in."""

from __future__ import annotations

from apps.core.plugins import Addition
from apps.web.links.guides import Guide

GUIDES: dict[str, Addition[Guide]] = {
    "When jobs start": Addition(
        Guide(
            "When jobs start",
            "scheduler-starts",
            (("when a job starts", "starts.md"),),
            ("GET schedulers/{scheduler}/starts",),
        ),
        after="Queue, *Why does my job wait?*",
    ),
    "Now": Addition(
        Guide(
            "Now",
            "now",
            (("waits and unused shares", "now.md"),),
            ("GET policies/{policy}/now",),
        ),
        after="When jobs start",
    ),
    "Planned waits": Addition(
        Guide(
            "Planned waits",
            "change-planned-waits",
            (("planned waits under a draft", "starts.md#waits-under-a-draft"),),
            ("GET policies/{policy}/changesets/{change_set}/planned-waits",),
        ),
        after="Now",
    ),
}
