"""`manage.py create_user NAME`: create a user who can sign in."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from apps.accounts.actor import COMMAND
from apps.accounts.services import make_user
from apps.core.errors import Invalid
from apps.core.operator_commands import OperatorCommand


class Command(OperatorCommand):
    help = "Creates a user who can sign in, and prints the user name and a generated password."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--email", default="")
        parser.add_argument("--admin", action="store_true", help="make an administrator")
        parser.add_argument("--password-stdin", action="store_true", help="read the password from standard input")

    def handle(self, *args: Any, **options: Any) -> None:
        password: str | None = None
        if options["password_stdin"]:
            password = sys.stdin.readline().rstrip("\r\n")
            if not password:
                raise Invalid("No password on standard input.")
        user, made = make_user(
            username=options["name"],
            email=options["email"],
            password=password,
            is_admin=options["admin"],
            actor=COMMAND,
        )
        self.stdout.write(f"{'administrator' if options['admin'] else 'user'} {user.username}")
        if made:
            self.stdout.write(f"password {made}")
