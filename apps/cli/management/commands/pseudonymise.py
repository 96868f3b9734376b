"""`manage.py pseudonymise`: replace names of idle accounts, or of one person, by pseudonyms, irreversibly."""

from __future__ import annotations

import argparse
from typing import Any

from apps.accounts.actor import COMMAND
from apps.core.clock import now
from apps.core.operator_commands import OperatorCommand
from apps.priorities.pseudonyms import pseudonymise_idle, pseudonymise_user


class Command(OperatorCommand):
    help = (
        "Replaces user names and DNs by pseudonyms, for accounts without usage for some days, or for one person. "
        "Totals do not change. This is irreversible."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        whose = parser.add_mutually_exclusive_group(required=True)
        whose.add_argument("--idle-days", type=int, metavar="N", help="accounts without usage for N days")
        whose.add_argument("--user", metavar="NAME", help="accounts of this person, whatever their usage")
        parser.add_argument("--namespace", default="", help="only accounts of this namespace")
        parser.add_argument("--reason", default="", help="reason for the audit log")
        parser.add_argument("--dry-run", action="store_true", help="count and change nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        arguments = {name: options[name] for name in ("namespace", "reason", "dry_run")}
        if options["user"] is not None:
            hidden = pseudonymise_user(user_name=options["user"], at=now(), actor=COMMAND, **arguments)
            whose = f"accounts of {options['user']}"
        else:
            hidden = pseudonymise_idle(idle_days=options["idle_days"], at=now(), actor=COMMAND, **arguments)
            whose = f"accounts without usage for {options['idle_days']} days"
        if options["dry_run"]:
            self.stdout.write(f"{hidden.n_accounts} {whose} (dry run: nothing changed)")
        else:
            done = f"have pseudonyms now; places in policies written down: {hidden.n_places}"
            self.stdout.write(f"{hidden.n_accounts} {whose} {done}")
        if hidden.n_held_back:
            self.stdout.write(f"{hidden.n_held_back} more keep their names: jobs of theirs still run or wait")
