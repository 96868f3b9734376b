"""`manage.py recompute SLUG`: compute current priorities, or those of a past instant."""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from apps.accounts.actor import COMMAND
from apps.core.clock import now
from apps.core.errors import FieldProblem, Invalid
from apps.core.operator_commands import REFUSED, OperatorCommand
from apps.priorities.moments import notes_of
from apps.priorities.recompute.staleness import request_recompute
from apps.runs.models import Run
from apps.runs.services import work_run_now


class Command(OperatorCommand):
    help = "Requests a recompute. With --wait, returns when look-ups serve the snapshot, and prints its number."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("policy", help="slug of the policy")
        past = "past instant, with the revision and mapping of that time; the snapshot is not served as the newest"
        parser.add_argument("--as-of", metavar="TIME", help=past)
        parser.add_argument("--wait", action="store_true", help="return when look-ups serve the snapshot")

    def handle(self, *args: Any, **options: Any) -> None:
        as_of = None if options["as_of"] is None else _instant(options["as_of"])
        run = request_recompute(policy_slug=options["policy"], as_of=as_of, at=now(), actor=COMMAND)
        if not options["wait"]:
            self.stdout.write(f"run {run.pk}")
            return
        run = work_run_now(run.pk)
        if run.state != Run.State.SUCCEEDED:
            raise CommandError(f"Run {run.pk} {run.state}: {run.error or run.message}", returncode=REFUSED)
        made = run.result
        time.sleep(2 * settings.FAIRSHARE_SNAPSHOT_POLL_S)  # all processes poll within this time
        self.stdout.write(
            f"snapshot {made['snapshot']} of revision {made['revision']} as of {made['as_of']}, "
            f"{made['n_ranked']} ranked"
        )
        for note in notes_of(made.get("known_later")):
            self.stdout.write(str(note))


def _instant(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
        if instant.tzinfo is not None:
            return instant.astimezone(UTC)
    except (ValueError, OverflowError):
        pass  # reported below, like a time without a zone
    raise Invalid(
        f"{text!r} is not an instant with UTC offset, such as 2026-01-31T12:00:00Z.",
        fields=[FieldProblem("--as-of", "needs a date, a time and a UTC offset")],
    )
