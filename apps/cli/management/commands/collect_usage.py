"""`manage.py collect_usage`: collect new records of a usage source now.

Workers of the instance collect, with their programs, folders and settings; without workers, this process does.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from django.core.management.base import CommandError

from apps.accounts.actor import COMMAND
from apps.core.clock import now
from apps.core.operator_commands import REFUSED, OperatorCommand
from apps.runs.models import Run
from apps.runs.services import wait_for_workers
from apps.runs.workers import are_working
from apps.usage.sources.services import collect_now

_COUNTS = ("new", "duplicate", "corrected", "late", "too_late", "vanished", "rejected")


class Command(OperatorCommand):
    help = "Collects a usage source now, ahead of its interval, and prints the counts."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--source", required=True, metavar="NAME", help="slug of the usage source")
        parser.add_argument("--json", action="store_true", help="print counts and problems as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        requested = collect_now(slug=options["source"], at=now(), actor=COMMAND)
        if not are_working(now()):
            self.stderr.write("No worker is running: this command collects, with the environment of this shell.")
        run = wait_for_workers(requested.pk)
        if run.state != Run.State.SUCCEEDED:
            message = f"The collection of {options['source']} {run.state}: {run.error or run.message}"
            raise CommandError(message, returncode=REFUSED)
        if options["json"]:
            self.stdout.write(json.dumps({"run": run.pk, **run.result}, ensure_ascii=False))
            return
        self.stdout.write(", ".join(f"{run.result[name]} {name.replace('_', ' ')}" for name in _COUNTS))
        for name, problem in sorted(run.result["problems"].items()):
            self.stderr.write(f"{name}: {problem}")
