"""`manage.py undo_import IMPORT`: undo an import of usage records."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import CommandError

from apps.accounts.actor import COMMAND
from apps.core.clock import now
from apps.core.counts import counted
from apps.core.operator_commands import REFUSED, OperatorCommand
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.records.undo import undo_import


class Command(OperatorCommand):
    help = (
        "Removes the records of an import, and restores the versions that they replaced. Fails with the reason if that "
        "is impossible or was done before."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("import_id", type=int, metavar="IMPORT", help="number of the import, as on its page")
        parser.add_argument("--reason", default="", help="reason for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        requested = undo_import(import_id=options["import_id"], reason=options["reason"], at=now(), actor=COMMAND)
        if requested.undone_at is not None:
            message = f"Import {requested.pk} was undone at {requested.undone_at:%FT%TZ}: nothing was left to remove."
            raise CommandError(message, returncode=REFUSED)
        if requested.undone_run_id is None:
            raise CommandError(f"Import {requested.pk} can't be undone.", returncode=REFUSED)
        run = work_run_now(requested.undone_run_id)
        if run.state != Run.State.SUCCEEDED:
            raise CommandError(
                f"Undoing import {requested.pk} {run.state}: {run.error or run.message}", returncode=REFUSED
            )
        removed, restored = run.result["removed"], run.result["put_back"]
        self.stdout.write(f"{counted(removed, 'record')} removed, {counted(restored, 'earlier version')} restored")
