"""`manage.py demo`: a grid on loopback with simulated jobs, until Ctrl-C."""

from __future__ import annotations

import argparse
import os
from http.client import HTTPException
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.cli.demo.instances import Failed
from apps.cli.demo.running import SPEED, run_demo
from apps.cli.stack.postgres import CannotStart
from apps.cli.stack.supervisor import Signals
from apps.core import clock

_FIRST_PORT = 8100


class Command(BaseCommand):
    help = (
        f"Runs a grid of two sites, a VO and a project with jobs simulated at {SPEED} × speed, until Ctrl-C; it keeps "
        "nothing."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--port", type=int, default=_FIRST_PORT, help="first of four ports in a row (default: %(default)s)"
        )

    def handle(self, *args: Any, port: int, **options: Any) -> None:
        if os.environ.get("FAIRSHARE_PRODUCTION", "").lower() in ("1", "true", "yes", "on"):
            raise CommandError("The demo doesn't run in production: unset FAIRSHARE_PRODUCTION first.")
        signals = Signals()
        try:
            with signals.installed():
                run_demo(first_port=port, at=clock.now(), signals=signals)
        except (CannotStart, Failed, HTTPException, OSError, ValueError) as error:
            if not signals.stopping():
                raise CommandError(str(error)) from error
