from __future__ import annotations

from django.apps import AppConfig
from django.core.checks import register

from apps.clock import check_clock


class CliConfig(AppConfig):
    name = "apps.cli"

    def ready(self) -> None:
        register(check_clock)
