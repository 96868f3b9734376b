from __future__ import annotations

from apps.core.plugins import PluginConfig


class ForecastConfig(PluginConfig):
    """Forecasts, what-if and goals."""

    name = "apps.contrib.forecast"
    label = "forecast"
