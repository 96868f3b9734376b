from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from apps.core.plugins import PluginConfig


class SchedulersConfig(PluginConfig):
    """Schedulers: their agents, queues, shadow mode and orders of shares."""

    name = "apps.contrib.schedulers"
    label = "schedulers"
    requires = ("apps.contrib.jobs",)
    extends = ("apps.contrib.notices",)

    def metrics(self) -> Iterable[Any]:
        from apps.contrib.schedulers.gauges import scheduler_families

        return scheduler_families()

    def notice_kinds(self) -> Mapping[str, Any]:
        from apps.contrib.schedulers.agent_notice import KIND

        return {KIND.name: KIND}
