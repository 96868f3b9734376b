from __future__ import annotations

from apps.core.plugins import PluginConfig


class JobsConfig(PluginConfig):
    """Priorities of jobs: the calculator, and the ledger of SAM's queue."""

    name = "apps.contrib.jobs"
    label = "gateway"
