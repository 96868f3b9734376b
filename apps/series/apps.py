from __future__ import annotations

from django.apps import AppConfig


class AnalyticsConfig(AppConfig):
    name = "apps.series"
    label = "analytics"

    def ready(self) -> None:
        from apps.runs.kinds import register
        from apps.series import runs

        register(runs.KIND, runs.run_series_build, is_low_priority=True)
