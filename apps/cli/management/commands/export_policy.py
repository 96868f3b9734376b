"""`manage.py export_policy --policy SLUG --format FORMAT`: a policy as a file on standard output."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path
from typing import Any

from apps.accounts.actor import COMMAND
from apps.cli.commands import OperatorCommand
from apps.core.clock import now
from apps.core.errors import FieldProblem, Invalid
from apps.policies.files.exports import export_policy
from apps.policies.formats.registry import FORMATS
from apps.policies.selectors import read_moment


class Command(OperatorCommand):
    help = "Writes a policy to standard output; what the format has no place for is listed on standard error."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--policy", required=True, help="its slug")
        parser.add_argument("--format", required=True, help=f"one of {', '.join(FORMATS)}")
        parser.add_argument("--at", help="a revision's number, or a time with its zone; without it: now")

        known = "of Slurm: sacctmgr dump, of which all but the shares stays; sacctmgr-script writes the changes alone"
        parser.add_argument("--against", metavar="FILE", help=f"a file with the state of now ({known})")
        parser.add_argument("--cluster", default="", metavar="NAME", help="its name; that of the last import else")

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
