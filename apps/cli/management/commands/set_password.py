"""`manage.py set_password NAME`: set a new password for a user."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from apps.accounts.actor import COMMAND
from apps.accounts.sign_in.passwords import set_password
from apps.core.clock import now
from apps.core.errors import Invalid
from apps.core.operator_commands import OperatorCommand


class Command(OperatorCommand):
    help = "Sets a user's password, and ends all their sessions. Verify the identity of the requester."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="user name")
        parser.add_argument(
            "--password-stdin",
            action="store_true",
            help="read the password from standard input, in place of a generated one",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        password: str | None = None
        if options["password_stdin"]:
            password = sys.stdin.readline().rstrip("\r\n")
            if not password:
                raise Invalid("No password on standard input.")
        made = set_password(username=options["name"], password=password, at=now(), actor=COMMAND)
        self.stdout.write(f"the password of {options['name']} is set; their sessions have ended")
        if made:
            self.stdout.write(f"password {made}")
