"""`manage.py rebuild_series SLUG`: build the daily and hourly series of a policy again, from the buckets."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import CommandError

from apps.accounts.actor import COMMAND
from apps.core.clock import now
from apps.core.operator_commands import REFUSED, OperatorCommand
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.series.runs import request_rebuild


class Command(OperatorCommand):
    help = (
        "Has the daily and hourly series of a policy built again from its usage; pages show the present one meanwhile"
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("policy", help="slug of the policy")
        parser.add_argument("--wait", action="store_true", help="build it here, and return when it is built")

    def handle(self, *args: Any, **options: Any) -> None:
        run = request_rebuild(policy_slug=options["policy"], at=now(), actor=COMMAND)
        if not options["wait"]:
            self.stdout.write(f"run {run.pk}")
            return
        run = work_run_now(run.pk)
        if run.state != Run.State.SUCCEEDED:
            raise CommandError(f"Run {run.pk} {run.state}: {run.error or run.message}", returncode=REFUSED)
        self.stdout.write(f"{run.result['days']} days and {run.result['hours']} hours built")
