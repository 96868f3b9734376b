"""`manage.py remove policy|source NAME`: remove a policy or usage source without data."""

from __future__ import annotations

import argparse
from typing import Any

from apps.accounts.actor import COMMAND
from apps.core.clock import now
from apps.core.operator_commands import OperatorCommand
from apps.mapping.removal import Removal, preview_removal, remove_policy, remove_source

_REMOVE = {"policy": remove_policy, "source": remove_source}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that `remove` and `archive` share."""
    parser.add_argument("kind", choices=list(_REMOVE), help="policy or source")
    parser.add_argument("name", metavar="NAME", help="slug of the policy or source")
    parser.add_argument("--reason", default="", help="reason for the audit log; not needed for a dry run")
    parser.add_argument("--dry-run", action="store_true", help="print dependent data and the effects, and do nothing")


def preview_lines(removal: Removal) -> list[str]:
    """The preview as lines of text."""
    lines = [f"The {removal.kind} {removal.slug} ({removal.name}): {removal.action}."]
    lines += [f"  depends on it: {each.what}: {each.n:,}" for each in removal.dependents]
    return lines + [f"  {each}" for each in removal.effects]


class Command(OperatorCommand):
    help = (
        "Removes a policy that has never had an entry below its root, or a usage source without records and sums. "
        "With dependent data, it lists the data and does nothing; use `archive` in that case."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        kind, name = options["kind"], options["name"]
        if options["dry_run"]:
            removal = preview_removal(kind=kind, slug=name, actor=COMMAND)
            self.stdout.write("\n".join(preview_lines(removal)))
            return
        _REMOVE[kind](slug=name, reason=options["reason"], at=now(), actor=COMMAND)
        self.stdout.write(f"Removed the {kind} {name}.")
