from __future__ import annotations

from apps.core.plugins import PluginConfig


class AllocationsConfig(PluginConfig):
    """Core-hours, capacities and reports for allocation boards."""

    name = "apps.contrib.allocations"
    label = "packs"
    requires = ("apps.contrib.notices",)
