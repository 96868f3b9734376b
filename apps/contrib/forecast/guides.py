"""Guides to the pages of this plug-in."""

from __future__ import annotations

from apps.core.plugins import Addition
from apps.web.links.guides import Guide

GUIDES: dict[str, Addition[Guide]] = {
    "Goal": Addition(
        Guide("Goal", "draft-goal", (("reach a goal", "manager.md#reach-a-goal"),), ("GET policies/{policy}/goal",)),
        after="Policy tree, entry",
    ),
}
