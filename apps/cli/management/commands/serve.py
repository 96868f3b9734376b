"""`manage.py serve ROLE`: run one process of the site, for containers and service managers. `up` runs all of them."""

from __future__ import annotations

import argparse
import os
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from apps.cli.stack.definitions import HOST, Definition, beat, outgoing, python, web, worker


class Command(BaseCommand):
    help = (
        "Runs one process: `prepare` makes tables and static files and ends; `web`, `worker`, `outgoing` and `beat` "
        "keep running. `outgoing` only calls other hosts; without it, `worker` does that, too."
    )
    requires_system_checks = ()  # `prepare` runs the checks

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("role", choices=("prepare", "web", "worker", "outgoing", "beat"))
        parser.add_argument("--host", default=HOST, help="address on which `web` listens (default: %(default)s)")
        parser.add_argument("--sample", action="store_true", help="let `prepare` fill an empty site with the sample")

    def handle(self, *args: Any, role: str, host: str, sample: bool, **options: Any) -> None:
        command = _definition(role, host, sample=sample).command
        self.stdout.flush()
        os.execv(command[0], command)


def _definition(role: str, host: str, *, sample: bool) -> Definition:
    match role:
        case "web":
            return web(settings.FAIRSHARE_PORT, host)
        case "worker":
            return worker("worker", f"worker-{os.getpid()}@%h")  # exec keeps the process id
        case "outgoing":
            return outgoing(f"outgoing-{os.getpid()}@%h")
        case "beat":
            return beat()
        case _:
            return Definition("prepare", python("-m", "apps.cli.stack.prepare", *([] if sample else ["--no-sample"])))
