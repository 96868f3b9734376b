"""`manage.py pseudonymise`: names of people who are long gone, replaced for good."""

from __future__ import annotations

import argparse
from typing import Any

from apps.accounts.actor import COMMAND
from apps.cli.commands import OperatorCommand
from apps.core.clock import now
from apps.priorities.visibility.pseudonyms import pseudonymise_idle


class Command(OperatorCommand):
    help = (
        "Replaces user names and DNs of accounts without usage for so many days by pseudonyms. Totals stay as they "
        "are; there is no way back."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--idle-days", type=int, required=True, metavar="N", help="without usage for so long")
        parser.add_argument("--namespace", default="", help="only of this one: whose user names these are")
        parser.add_argument("--reason", default="", help="for the audit log")
        parser.add_argument("--dry-run", action="store_true", help="count, and change nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        hidden = pseudonymise_idle(
            idle_days=options["idle_days"],
            namespace=options["namespace"],
            reason=options["reason"],
            dry_run=options["dry_run"],
            at=now(),
            actor=COMMAND,
        )
        told = f"{hidden.n_accounts} accounts without usage for {options['idle_days']} days"
        if options["dry_run"]:
            self.stdout.write(f"{told} (dry run: nothing changed)")
        else:
            self.stdout.write(f"{told} have pseudonyms now; places in policies written down: {hidden.n_places}")
