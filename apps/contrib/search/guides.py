"""Guides to the pages of this plug-in."""

from __future__ import annotations

from apps.core.plugins import Addition
from apps.web.links.guides import Guide

GUIDES: dict[str, Addition[Guide]] = {
    "Search": Addition(
        Guide("Search", "search", (("search and keys", "search.md"),), ("GET search",)), after="My priority"
    ),
}
