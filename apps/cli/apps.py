from __future__ import annotations

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import register

from apps.core.clock import check_clock


class CliConfig(AppConfig):
    name = "apps.cli"

    def ready(self) -> None:
        from apps.cli.sample.peers import register_publishers

        register(check_clock)
        # Commands that need no instance have no such setting; production refuses the sample.
        if not getattr(settings, "PRODUCTION", True):
            register_publishers()
