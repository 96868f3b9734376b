"""`manage.py import_allocations --policy SLUG FILE`: import allocations of a file, with a preview."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from apps.accounts.actor import COMMAND
from apps.contrib.allocations.exchange.file_formats import FILE_FORMATS, guess_format, read_file
from apps.contrib.allocations.exchange.plan import AllocationPlan, PlannedAllocation, plan_allocations
from apps.contrib.allocations.exchange.services import ImportOptions, import_allocations, require_no_problems
from apps.core.clock import now
from apps.core.errors import FieldProblem, Invalid
from apps.core.operator_commands import OperatorCommand
from apps.policies.formats.decoding import text_of

DIFFERS = 3  # exit status of --exit-code if the file differs, as of import_policy
_MOST_PRINTED_CHANGES = 50
_WORDS = {"add": "new", "change": "changed", "withdraw": "withdrawn", "same": "the same"}


class Command(OperatorCommand):
    help = (
        "Compares allocations of a file with those of a policy, and adds or changes what differs. The same file again "
        "changes nothing. Allocations that the file lacks stay, unless --withdraw-missing is given."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", help="file to import, also gzip; - for standard input")
        parser.add_argument("--policy", required=True, help="slug of the policy")
        parser.add_argument("--format", choices=list(FILE_FORMATS), help="default: by the contents")
        parser.add_argument("--withdraw-missing", action="store_true", help="withdraw allocations that the file lacks")
        parser.add_argument("--reason", default="", help="reason of allocations that have none in the file")
        parser.add_argument("--dry-run", action="store_true", help="print the differences and store nothing")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")
        parser.add_argument(
            "--exit-code",
            action="store_true",
            help="with --dry-run: exit status 0 if nothing differs, 3 if something does",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        _refuse_contradictions(options)
        content = _content(options["file"])
        file = read_file(options["format"] or guess_format(text_of(content)), content)
        whole: dict[str, Any] = {"policy_slug": options["policy"], "file": file, "at": now(), "actor": COMMAND}
        if options["dry_run"]:
            plan = plan_allocations(**whole, withdraw_missing=options["withdraw_missing"])
            require_no_problems(plan)
        else:
            asked = ImportOptions(reason=options["reason"], withdraw_missing=options["withdraw_missing"])
            plan = import_allocations(**whole, options=asked)
        self._print(plan, options)
        if options["exit_code"] and plan.changes:
            raise SystemExit(DIFFERS)

    def _print(self, plan: AllocationPlan, options: dict[str, Any]) -> None:
        if options["json"]:
            self.stdout.write(json.dumps({"counts": plan.counts, "dry_run": options["dry_run"]}))
            return
        counts = ", ".join(f"{_WORDS[action]}: {n:,}" for action, n in plan.counts.items() if n)
        head = "dry run" if options["dry_run"] else "imported"
        self.stdout.write(f"{head}, {plan.policy.slug}: {counts or 'no allocations'}")
        for row in plan.changes[:_MOST_PRINTED_CHANGES]:
            self.stdout.write(f"  {_line(row)}")
        more = len(plan.changes) - _MOST_PRINTED_CHANGES
        if more > 0:
            self.stdout.write(f"  and {more:,} more")


def _line(row: PlannedAllocation) -> str:
    """One change, such as `/physics: changed, 2,000 → 3,000 core-h, 2026-01-01 to 2026-12-31`."""
    amount = f"{row.amount:,g} {row.unit}"
    if row.amount_before is not None and row.amount_before != row.amount:
        amount = f"{row.amount_before:,g} → {amount}"
    return f"{row.path}: {_WORDS[row.action]}, {amount}, {row.starts_on} to {row.ends_on}"


def _refuse_contradictions(options: dict[str, Any]) -> None:
    if options["exit_code"] and not options["dry_run"]:
        raise Invalid("--exit-code needs --dry-run.", fields=[FieldProblem("--dry-run", "is missing")])
    if not options["dry_run"] and not options["reason"].strip():
        raise Invalid("Importing needs --reason.", fields=[FieldProblem("--reason", "is missing")])


def _content(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise Invalid(f"{name}: {error.strerror}.", fields=[FieldProblem("file", "can't be read")]) from error
