"""`manage.py remove policy|source NAME`: removes what was made by mistake, while nothing rests on it."""

from __future__ import annotations

import argparse
from typing import Any

from apps.accounts.actor import COMMAND
from apps.cli.commands import OperatorCommand
from apps.core.clock import now
from apps.mapping.removal import Removal, preview_removal, remove_policy, remove_source

_REMOVE = {"policy": remove_policy, "source": remove_source}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `remove` and `archive`."""
    parser.add_argument("kind", choices=list(_REMOVE), help="policy or source")
    parser.add_argument("name", metavar="NAME", help="its slug")
    parser.add_argument("--reason", default="", help="why, for the audit log; not needed for a dry run")
    parser.add_argument("--dry-run", action="store_true", help="print what rests on it and what would happen")


def preview_lines(found: Removal) -> list[str]:
    """As the page says it."""
    lines = [f"The {found.kind} {found.slug} ({found.name}): {found.action}."]
    lines += [f"  rests on it: {each.what}: {each.n:,}" for each in found.rests]
    return lines + [f"  {each}" for each in found.effects]


class Command(OperatorCommand):
    help = (
        "Removes a policy that has never had an entry below its root, or a usage source without records and sums; "
        "refuses, and lists what rests on it, where something does: `archive` hides it then."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        kind, name = options["kind"], options["name"]
        if options["dry_run"]:
            found = preview_removal(kind=kind, slug=name, actor=COMMAND)
            self.stdout.write("\n".join(preview_lines(found)))
            return
        _REMOVE[kind](slug=name, reason=options["reason"], at=now(), actor=COMMAND)
        self.stdout.write(f"Removed the {kind} {name}.")
