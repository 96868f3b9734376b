from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.core.plugins import Addition, PluginConfig, Words


class SearchConfig(PluginConfig):
    """The palette and the search page."""

    name = "apps.contrib.search"
    label = "search"
    requires = ("apps.contrib.schedulers",)

    def frame_parts(self) -> Mapping[str, str]:
        return {"topbar": "contrib/search/_topbar.html", "end": "contrib/search/_palette.html"}

    def rest_tags(self) -> Mapping[str, Addition[Words]]:
        return {
            "search": Addition("Names in one order, and answers to typed questions", after="schedulers"),
        }

    def guides(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.search.guides import GUIDES

        return GUIDES
