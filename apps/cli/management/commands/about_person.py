"""`manage.py about_person NAME`: print all stored data about one person as JSON."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from apps.accounts.about_person import about_person, as_json
from apps.accounts.actor import COMMAND
from apps.core.operator_commands import OperatorCommand


class Command(OperatorCommand):
    help = "Prints all stored data about a person as JSON, by table. Verify the identity of the requester."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="user name, of the sign-in or of jobs")

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(as_json(about_person(name=options["name"], actor=COMMAND)))
