from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class AnalyticsConfig(AppConfig):
    name = "apps.series"
    label = "analytics"

    def ready(self) -> None:
        from apps.runs.kinds import register
        from apps.runs.queues import INTERACTIVE, SERIES
        from apps.series import back_test_runs, runs

        register(runs.KIND, runs.run_series_build, queue=SERIES, length=2, title=_("the daily values of a policy"))
        register(back_test_runs.KIND, back_test_runs.run_back_test, queue=INTERACTIVE, title=_("a back-test"))
