"""Guides to the pages of this plug-in."""

from __future__ import annotations

from apps.core.plugins import Addition
from apps.web.links.guides import Guide

GUIDES: dict[str, Addition[Guide]] = {
    "Notices": Addition(
        Guide(
            "Notices",
            "notices notice notice-rules notice-rule-new notice-rule notice-mail webhooks webhook-new webhook",
            (("notices", "notices.md#notices"),),
            ("GET notices", "GET notices/rules"),
        ),
        after="Inbox",
    ),
    "Statements": Addition(
        Guide(
            "Statements",
            "statements",
            (("statements", "notices.md#monthly-statements"),),
            ("GET policies/{policy}/statements",),
        ),
        after="My jobs",
    ),
}
