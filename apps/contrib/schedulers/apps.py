from __future__ import annotations

from apps.core.plugins import PluginConfig


class SchedulersConfig(PluginConfig):
    name = "apps.contrib.schedulers"
    label = "schedulers"
