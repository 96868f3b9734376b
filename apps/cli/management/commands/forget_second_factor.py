"""`manage.py forget_second_factor NAME`: remove the second factor of a user who has lost it."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from apps.accounts.actor import COMMAND
from apps.accounts.sign_in.second_factor import forget_second_factor
from apps.core.clock import now
from apps.core.operator_commands import OperatorCommand


class Command(OperatorCommand):
    help = "Removes a user's second factor, so that the password suffices. Verify the identity of the requester."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="user name")

    def handle(self, *args: Any, **options: Any) -> None:
        forget_second_factor(username=options["name"], at=now(), actor=COMMAND)
        self.stdout.write(f"{options['name']} signs in by password alone until a new second factor is set up")
