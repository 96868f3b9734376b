"""`manage.py unlock NAME`: for somebody whose sign-in is locked after wrong passwords."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from apps.accounts.actor import COMMAND
from apps.accounts.sign_in.passwords import unlock
from apps.cli.commands import OperatorCommand
from apps.core.clock import now


class Command(OperatorCommand):
    help = "Unlocks sign-in for a name after wrong passwords, from every address."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="the user name")

    def handle(self, *args: Any, **options: Any) -> None:
        n_forgotten = unlock(username=options["name"], at=now(), actor=COMMAND)
        if n_forgotten:
            self.stdout.write(f"{options['name']} may sign in again; failed attempts forgotten: {n_forgotten}")
        else:
            self.stdout.write(f"{options['name']} isn't locked")
