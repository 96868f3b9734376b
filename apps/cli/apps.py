from __future__ import annotations

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import register

from apps.core.clock import check_clock


class CliConfig(AppConfig):
    name = "apps.cli"

    def ready(self) -> None:
        register(check_clock)
        # Commands that need no instance install no federation; production refuses the sample.
        if apps.is_installed("apps.federation") and not settings.PRODUCTION:
            from apps.cli.sample.peers import register_publishers

            register_publishers()
