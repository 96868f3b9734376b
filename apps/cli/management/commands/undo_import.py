"""`manage.py undo_import`: undoes an import completely."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import CommandError

from apps.accounts.actor import COMMAND
from apps.cli.commands import REFUSED, OperatorCommand
from apps.core.clock import now
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.records.undo import undo_import


class Command(OperatorCommand):
    help = (
        "Removes what an import brought, and puts back what it had replaced; refuses, with the reason, where it can't,"
        " and where it was undone before."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("import_id", type=int, metavar="IMPORT", help="its number, as its page shows it")
        parser.add_argument("--reason", default="", help="why, for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        asked = undo_import(import_id=options["import_id"], reason=options["reason"], at=now(), actor=COMMAND)
        if asked.undone_at is not None:
            message = f"Import {asked.pk} was undone at {asked.undone_at:%FT%TZ}: nothing was left to remove."
            raise CommandError(message, returncode=REFUSED)
        if asked.undone_run_id is None:
            raise CommandError(f"Import {asked.pk} can't be undone.", returncode=REFUSED)
        run = work_run_now(asked.undone_run_id)
        if run.state != Run.State.SUCCEEDED:
            raise CommandError(f"Undoing import {asked.pk} {run.state}: {run.error or run.message}", returncode=REFUSED)
        removed, put_back = run.result["removed"], run.result["put_back"]
        self.stdout.write(f"{removed} records removed, {put_back} earlier versions put back")
