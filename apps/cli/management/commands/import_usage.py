"""`manage.py import_usage`: a file of job accounting into a source, each line counted or named."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

from django.core.management.base import CommandError

from apps.accounts.actor import COMMAND
from apps.cli.commands import BAD_INPUT, REFUSED, OperatorCommand
from apps.core.clock import now
from apps.core.errors import FieldProblem, Invalid
from apps.priorities.selectors import count_unmapped_of_import
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.models import Import, RejectedLine, Source
from apps.usage.parsers.registry import AUTO, FORMATS
from apps.usage.services import start_import

_SHOWN = 20
_COUNTS = ("new", "duplicate", "corrected", "late", "rejected")


class Command(OperatorCommand):
    help = "Imports a file of job accounting. The same file again changes nothing. Counts go to standard output."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--source", required=True, metavar="NAME", help="its slug; made on first use")
        parser.add_argument("--format", default=AUTO, choices=[AUTO, *FORMATS])
        parser.add_argument("--time-zone", default="", metavar="ZONE", help="of times without one: Europe/Stockholm")
        parser.add_argument("--dry-run", action="store_true", help="count, and store nothing")
        parser.add_argument("--all-or-nothing", action="store_true", help="one bad line, and nothing is stored")
        parser.add_argument("--json", action="store_true", help="counts and rejected lines as JSON")
        parser.add_argument("file", metavar="FILE", help="plain, gz or zst; - reads standard input")

    def handle(self, *args: Any, **options: Any) -> None:
        with _opened(options["file"]) as file:
            is_new = not Source.objects.filter(slug=options["source"]).exists()
            made = start_import(
                source_slug=options["source"],
                format=options["format"],
                file=file,
                file_name=Path(options["file"]).name if options["file"] != "-" else "standard input",
                time_zone=options["time_zone"],
                dry_run=options["dry_run"],
                all_or_nothing=options["all_or_nothing"],
                makes_source=True,
                at=now(),
                actor=COMMAND,
            )
        if is_new:
            self.stderr.write(f"Made the usage source {options['source']!r}, with user names of its own.")
        run = work_run_now(made.run_id)
        if run.state != Run.State.SUCCEEDED:
            status = REFUSED if run.error_code in ("", "failed", "worker_lost") else BAD_INPUT
            raise CommandError(f"Import {made.pk} {run.state}: {run.error or run.message}", returncode=status)
        self._print_result(made, run, as_json=options["json"])
        if run.counts["rejected"] and not any(run.counts[name] for name in (*_COUNTS[:-1], "too_late")):
            raise CommandError("No line of this file could be taken.", returncode=BAD_INPUT)

    def _print_result(self, made: Import, run: Run, *, as_json: bool) -> None:
        rejected = RejectedLine.objects.filter(usage_import=made).order_by("line")
        n_unmapped = count_unmapped_of_import(Import.objects.select_related("run", "source").get(pk=made.pk))
        if as_json:
            lines = list(rejected.values("line", "code", "message", "excerpt"))
            result = {name: value for name, value in run.result.items() if name != "names"}
            answer = {"import": made.pk, "dry_run": made.dry_run, **result, "unmapped": n_unmapped}
            answer["rejected_lines"] = lines
            self.stdout.write(json.dumps(answer, ensure_ascii=False))
            return
        told = {**run.counts, "late": run.counts["late"] + run.counts["too_late"]}
        counts = ", ".join(f"{told[name]} {name}" for name in _COUNTS)
        counts += f", {n_unmapped} accounts unmapped" if n_unmapped else ""
        self.stdout.write(f"{counts}{' (dry run: nothing stored)' if made.dry_run else ''}")
        for line in rejected[:_SHOWN]:
            self.stderr.write(f"line {line.line}: {line.code}: {line.message}")
        if run.counts["rejected"] > _SHOWN:
            self.stderr.write(f"… {run.counts['rejected'] - _SHOWN} more: --json, or the page of import {made.pk}.")


def _opened(name: str) -> AbstractContextManager[BinaryIO]:
    if name == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return open(name, "rb")
    except OSError as error:
        problem = FieldProblem("FILE", "needs the path of a readable file, or - for standard input")
        raise Invalid(f"{name} can't be read: {error.strerror}.", fields=[problem]) from error
