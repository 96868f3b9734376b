"""`manage.py export_policy --policy SLUG --format FORMAT`: write a policy as a file to standard output."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path
from typing import Any

from apps.accounts.actor import COMMAND
from apps.core.clock import now
from apps.core.errors import FieldProblem, Invalid
from apps.core.operator_commands import OperatorCommand
from apps.policies.files.exports import export_policy
from apps.policies.formats.registry import FORMATS
from apps.policies.selectors import read_moment


class Command(OperatorCommand):
    help = "Writes a policy to standard output. Parts that the format can't express are listed on standard error."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--policy", required=True, help="slug of the policy")
        parser.add_argument("--format", required=True, help=f"one of {', '.join(FORMATS)}")
        parser.add_argument("--at", help="past revision, or instant with UTC offset (default: now)")

        known = "for Slurm the output of sacctmgr dump: its shares are replaced; sacctmgr-script writes changes only"
        parser.add_argument("--against", metavar="FILE", help=f"file with the scheduler's current state ({known})")
        parser.add_argument(
            "--cluster", default="", metavar="NAME", help="name of the cluster (default: that of the last import)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        export = export_policy(
            policy_slug=options["policy"],
            format=options["format"],
            moment=_moment(options["at"]),
            against=None if options["against"] is None else _content_of(options["against"]),
            cluster=options["cluster"],
            at=now(),
            actor=COMMAND,
        )
        self.stdout.ending = ""
        for piece in export.pieces():
            self.stdout.write(piece)
        if export.difference is not None:
            self.stderr.write(export.difference.in_words)
            for note in export.difference.notes:
                self.stderr.write(note)
        for what in export.dropped:
            self.stderr.write(f"left out: {what}")


def _content_of(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        problem = FieldProblem("--against", "needs the path of a readable file")
        raise Invalid(f"{name} can't be read: {error.strerror}.", fields=[problem]) from error


def _moment(text: str | None) -> int | datetime | None:
    try:
        return read_moment(text)
    except ValueError:
        message = "is neither a revision nor a time such as 2026-01-31T12:00:00Z"
        raise Invalid(f"--at {message}.", fields=[FieldProblem("--at", message)]) from None
