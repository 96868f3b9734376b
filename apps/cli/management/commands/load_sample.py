"""`manage.py load_sample`: load the synthetic sample grid into an empty installation."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from apps.cli.sample.loading import load_sample
from apps.core.clock import now
from apps.core.errors import NotAllowed
from apps.core.operator_commands import OperatorCommand


class Command(OperatorCommand):
    help = "Loads the sample grid: 28 virtual organisations, six sites, three months of usage."

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.PRODUCTION:
            raise NotAllowed("Sample data can't be loaded in production: unset FAIRSHARE_PRODUCTION first.")
        load_sample(at=now().replace(second=0, microsecond=0))
        self.stdout.write("sample grid loaded")
