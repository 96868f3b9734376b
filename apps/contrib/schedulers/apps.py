from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apps.core.plugins import PluginConfig


class SchedulersConfig(PluginConfig):
    name = "apps.contrib.schedulers"
    label = "schedulers"

    def metrics(self) -> Iterable[Any]:
        from apps.contrib.schedulers.gauges import scheduler_families

        return scheduler_families()
