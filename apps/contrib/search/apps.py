from __future__ import annotations

from apps.core.plugins import PluginConfig


class SearchConfig(PluginConfig):
    """The palette and the search page."""

    name = "apps.contrib.search"
    label = "search"
    requires = ("apps.contrib.schedulers",)
