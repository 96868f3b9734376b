from __future__ import annotations

from django.apps import AppConfig


class AnalyticsConfig(AppConfig):
    name = "apps.analytics"
    label = "analytics"

    def ready(self) -> None:
        from apps.analytics.series import runs
        from apps.runs.kinds import register

        register(runs.KIND, runs.run_series_build, is_low_priority=True)
