"""`manage.py archive policy|source NAME`: archive a policy or usage source, or restore it with --restore."""

from __future__ import annotations

import argparse
from typing import Any

from apps.accounts.actor import COMMAND
from apps.cli.management.commands.remove import add_arguments, preview_lines
from apps.core.clock import now
from apps.core.operator_commands import OperatorCommand
from apps.mapping.removal import archive_policy, archive_source, preview_removal, restore_policy, restore_source

_DO = {
    ("policy", False): archive_policy,
    ("policy", True): restore_policy,
    ("source", False): archive_source,
    ("source", True): restore_source,
}


class Command(OperatorCommand):
    help = (
        "Archives a policy or a usage source: it is hidden from lists, is not computed or counted, and accepts no "
        "changes; its history stays readable. --restore reverses this."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_arguments(parser)
        parser.add_argument("--restore", action="store_true", help="restore it from the archive")

    def handle(self, *args: Any, **options: Any) -> None:
        kind, name, restores = options["kind"], options["name"], options["restore"]
        if options["dry_run"]:
            removal = preview_removal(kind=kind, slug=name, actor=COMMAND)
            self.stdout.write("\n".join(preview_lines(removal)))
            return
        _DO[kind, restores](slug=name, reason=options["reason"], at=now(), actor=COMMAND)
        self.stdout.write(f"{'Restored' if restores else 'Archived'} the {kind} {name}.")
