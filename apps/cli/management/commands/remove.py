"""`manage.py remove policy|source NAME`: removes what was made by mistake, while nothing rests on it."""

from __future__ import annotations

import argparse
from typing import Any

from apps.accounts.actor import COMMAND
from apps.cli.commands import OperatorCommand
from apps.core.clock import now
from apps.mapping.removal import remove_policy, remove_source

_REMOVE = {"policy": remove_policy, "source": remove_source}


class Command(OperatorCommand):
    help = (
        "Removes a policy that has never had an entry below its root, or a usage source without records and sums; "
        "refuses, and lists what rests on it, where something does."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("kind", choices=list(_REMOVE), help="what is removed")
        parser.add_argument("name", metavar="NAME", help="its slug")
        parser.add_argument("--reason", required=True, help="why, for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        _REMOVE[options["kind"]](slug=options["name"], reason=options["reason"], at=now(), actor=COMMAND)
        self.stdout.write(f"Removed the {options['kind']} {options['name']}.")
