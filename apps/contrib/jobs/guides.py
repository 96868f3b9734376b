"""Guides to the pages of this plug-in."""

from __future__ import annotations

from apps.core.plugins import Addition
from apps.web.links.guides import Guide

GUIDES: dict[str, Addition[Guide]] = {
    "Explain a job, Priority calculator": Addition(
        Guide(
            "Explain a job, Priority calculator",
            "jobs jobs-calculator",
            (("why this priority", "look-ups.md#why-does-this-job-have-this-priority"),),
            ("POST jobs/explain",),
        ),
        after="Inbox",
    ),
    "SAM queue": Addition(
        Guide(
            "SAM queue",
            "sam",
            (("SAM queue", "sam.md"),),
            ("GET policies/{policy}/sam",),
        ),
        after="Sources and quality, *Usage upload*",
    ),
}
