"""`manage.py serve ROLE`: run one process of the site, for containers and service managers. `up` runs all of them."""

from __future__ import annotations

import argparse
import os
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from apps.cli.stack.definitions import HOST, Definition, beat, outgoing, prepare, web, worker


class Command(BaseCommand):
    help = (
        "Runs one process: `prepare` makes tables and static files and ends; `web`, `worker`, `outgoing` and `beat` "
        "keep running. `outgoing` only calls other hosts: it is a worker of the queue `federation`, with threads."
    )
    requires_system_checks = ()  # `prepare` runs the checks

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("role", choices=("prepare", "web", "worker", "outgoing", "beat"))
        parser.add_argument("--host", default=HOST, help="address on which `web` listens (default: %(default)s)")
        parser.add_argument("-Q", "--queues", default="", help="queues of `worker`, by commas (default: all of them)")
        parser.add_argument("-X", "--exclude-queues", default="", help="queues that `worker` leaves to others")
        n_workers = settings.FAIRSHARE_WORKERS
        parser.add_argument(
            "-c", "--concurrency", type=int, default=n_workers, help="processes of `worker` (default: %(default)s)"
        )
        parser.add_argument("--sample", action="store_true", help="let `prepare` fill an empty site with the sample")

    def handle(self, *args: Any, role: str, **options: Any) -> None:
        if role == "web":  # workers and beat ask themselves, however they are started
            from apps.runs.presence import refusal  # no other role has loaded the models of `runs`

            if reason := refusal():
                raise CommandError(reason)
        command = _definition(role, **options).command
        self.stdout.flush()
        os.execv(command[0], command)


def _definition(
    role: str, *, host: str, sample: bool, queues: str, exclude_queues: str, concurrency: int, **_: Any
) -> Definition:
    match role:
        case "web":
            return web(settings.FAIRSHARE_PORT, host, n_processes=settings.FAIRSHARE_WEB_WORKERS)
        case "worker":
            node = f"worker-{os.getpid()}@%h"  # exec keeps the process id
            n_processes = 1 if settings.CELERY_BROKER_URL == "filesystem://" else concurrency
            return worker("worker", node, n_processes=n_processes, queues=queues, exclude_queues=exclude_queues)
        case "outgoing":
            return outgoing(f"outgoing-{os.getpid()}@%h")
        case "beat":
            return beat()
        case _:
            return prepare(*([] if sample else ["--no-sample"]))
