"""`manage.py unlock NAME`: unlock the sign-in of a user after wrong passwords."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from apps.accounts.actor import COMMAND
from apps.accounts.sign_in.passwords import unlock
from apps.core.clock import now
from apps.core.operator_commands import OperatorCommand


class Command(OperatorCommand):
    help = "Unlocks the sign-in of a user name after wrong passwords, for all addresses."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="user name")

    def handle(self, *args: Any, **options: Any) -> None:
        n_forgotten = unlock(username=options["name"], at=now(), actor=COMMAND)
        if n_forgotten:
            self.stdout.write(f"{options['name']} may sign in again; failed attempts forgotten: {n_forgotten}")
        else:
            self.stdout.write(f"{options['name']} is not locked")
