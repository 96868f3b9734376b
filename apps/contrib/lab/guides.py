"""Guides to the pages of this plug-in."""

from __future__ import annotations

from apps.core.plugins import Addition
from apps.web.guides import Guide

GUIDES: dict[str, Addition[Guide]] = {
    "Operators": Addition(
        Guide(
            "Operators",
            "operators",
            (("operators and resolution", "policy-settings.md#operators-and-resolution"), ("analysis", "analysis.md")),
            ("GET policies/{policy}/operators",),
        ),
        after="Algorithm, Compare",
    ),
}
