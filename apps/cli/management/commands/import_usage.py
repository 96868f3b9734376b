"""`manage.py import_usage`: import an accounting log into a usage source, and report every rejected line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from django.core.management.base import CommandError

from agent.site_commands import CONFIG, PARTITIONS, listed
from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import COMMAND
from apps.core.clock import now
from apps.core.counts import counted
from apps.core.errors import FieldProblem, Invalid
from apps.core.operator_commands import BAD_INPUT, REFUSED, OperatorCommand
from apps.mapping.rules.problems import other_case_text
from apps.policies.formats.decoding import text_of
from apps.priorities.selectors import (
    count_unmapped_of_import,
    count_unmapped_of_preview,
    list_other_case_of_import,
)
from apps.priorities.serving.lookup import names_of
from apps.priorities.slurm_config import read_slurm_config
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.import_notes import lost_lines
from apps.usage.models import Import, RejectedLine, Source
from apps.usage.parsers.registry import AUTO, FORMATS
from apps.usage.services import NewImport, preview_import, start_import

_OF_LINE = ("line", "code", "message", "excerpt")  # of a rejected line
_SHOWN = 20
_COUNTS = ("new", "duplicate", "corrected", "late", "rejected")


class Command(OperatorCommand):
    help = "Imports an accounting log, and prints the counts. Importing the same file again changes nothing."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--source", required=True, metavar="NAME", help="slug of the usage source; made if it does not exist"
        )
        parser.add_argument("--format", default=AUTO, choices=[AUTO, *FORMATS])
        parser.add_argument(
            "--time-zone",
            default="",
            metavar="ZONE",
            help="time zone of local times in the log, such as Europe/Stockholm",
        )
        parser.add_argument(
            "--slurm-config",
            metavar="FILE",
            help=f"outputs of {listed(CONFIG, PARTITIONS)}: billing is computed exactly from their "
            "TRESBillingWeights, now and for later records of the source",
        )
        parser.add_argument("--dry-run", action="store_true", help="count and store nothing")
        parser.add_argument("--all-or-nothing", action="store_true", help="store nothing if any line is rejected")
        parser.add_argument("--json", action="store_true", help="print counts and rejected lines as JSON")
        parser.add_argument("file", metavar="FILE", help="log file, plain, gz or zst; - for standard input")

    def handle(self, *args: Any, **options: Any) -> None:
        is_new = not Source.all_objects.filter(slug=options["source"]).exists()
        wanted: dict[str, Any] = {
            "source_slug": options["source"],
            "format": options["format"],
            "time_zone": options["time_zone"],
            "billing_weights": None if options["slurm_config"] is None else _billing_weights(options["slurm_config"]),
        }
        with _opened(options["file"]) as file:
            if is_new and options["dry_run"]:
                report = _preview(wanted, file)
            else:
                report = self._import(wanted, file, options, is_new=is_new)
        self._print_report(report, as_json=options["json"])
        if report.result["rejected"] and not any(report.result[name] for name in (*_COUNTS[:-1], "too_late")):
            raise CommandError("No line of this file was accepted.", returncode=BAD_INPUT)

    def _import(self, wanted: dict[str, Any], file: BinaryIO, options: dict[str, Any], *, is_new: bool) -> _Report:
        made = start_import(
            NewImport(
                **wanted,
                file=file,
                file_name=Path(options["file"]).name if options["file"] != "-" else "standard input",
                dry_run=options["dry_run"],
                all_or_nothing=options["all_or_nothing"],
                makes_source=True,
            ),
            at=now(),
            actor=COMMAND,
        )
        if is_new:
            self.stderr.write(f"Made the usage source {options['source']!r}, with user names of its own.")
        run = work_run_now(made.run_id)
        if run.state != Run.State.SUCCEEDED:
            status = REFUSED if run.error_code in ("", "failed", "worker_lost") else BAD_INPUT
            raise CommandError(f"Import {made.pk} {run.state}: {run.error or run.message}", returncode=status)
        rejected = RejectedLine.objects.filter(usage_import=made).order_by("line")
        n_unmapped = count_unmapped_of_import(Import.objects.select_related("run", "source").get(pk=made.pk))
        lines = rejected.values(*_OF_LINE)
        other_case = list_other_case_of_import(Import.objects.select_related("run").get(pk=made.pk))
        return _Report(made.pk, made.dry_run, run.result, [dict(line) for line in lines], n_unmapped, other_case)

    def _print_report(self, report: _Report, *, as_json: bool) -> None:
        if as_json:
            result = {name: value for name, value in report.result.items() if not name.endswith("names")}
            answer = {"import": report.import_id, "dry_run": report.is_dry, **result, "unmapped": report.n_unmapped}
            answer["rejected_lines"] = report.rejected
            answer["other_case"] = [{**names_of(key), "likely": path} for key, path in report.other_case]
            self.stdout.write(json.dumps(answer, ensure_ascii=False))
            return
        n = {**report.result, "late": report.result["late"] + report.result["too_late"]}
        counts = ", ".join(f"{n[name]} {name}" for name in _COUNTS)
        counts += f", {counted(report.n_unmapped, 'account')} unmapped" if report.n_unmapped else ""
        self.stdout.write(f"{counts}{' (dry run: nothing stored)' if report.is_dry else ''}")
        for note in lost_lines(report.result.get("notes", {})):
            self.stderr.write(f"{note.n:,} × {note.words}.")
        for key, path in report.other_case[:_SHOWN]:
            self.stderr.write(other_case_text(key, path))
        for line in report.rejected[:_SHOWN]:
            self.stderr.write(f"line {line['line']}: {line['code']}: {line['message']}")
        if n["rejected"] > _SHOWN:
            page = "" if report.import_id is None else f", or the page of import {report.import_id}"
            self.stderr.write(f"… {n['rejected'] - _SHOWN} more: --json{page}.")


@dataclass(frozen=True)
class _Report:
    """Result of an import. import_id: None for a dry run without a source, which is not stored."""

    import_id: int | None
    is_dry: bool
    result: Mapping[str, Any]
    rejected: list[dict[str, Any]]
    n_unmapped: int | None
    other_case: Sequence[tuple[AccountKey, str]] = ()


def _preview(wanted: dict[str, Any], file: BinaryIO) -> _Report:
    source, import_preview = preview_import(**wanted, file=file, at=now(), actor=COMMAND)
    n_unmapped = count_unmapped_of_preview(import_preview.result, source.namespace)
    lines = [{name: getattr(each, name) for name in _OF_LINE} for each in import_preview.rejections]
    return _Report(None, True, import_preview.result, lines, n_unmapped)


def _billing_weights(name: str) -> Mapping[str, Any]:
    with _opened(name) as file:
        return read_slurm_config(text_of(file.read())).billing_weights


def _opened(name: str) -> AbstractContextManager[BinaryIO]:
    if name == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return open(name, "rb")
    except OSError as error:
        problem = FieldProblem("FILE", "needs the path of a readable file, or - for standard input")
        raise Invalid(f"{name} can't be read: {error.strerror}.", fields=[problem]) from error
