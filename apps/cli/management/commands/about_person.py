"""`manage.py about_person NAME`: everything that is stored of one person, as JSON."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from apps.accounts.about_person import about_person, as_json
from apps.accounts.actor import COMMAND
from apps.cli.commands import OperatorCommand


class Command(OperatorCommand):
    help = "Prints everything that is stored of a person as JSON, by table. Verify who asks for it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="the user name, of sign-in or of jobs")

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(as_json(about_person(name=options["name"], actor=COMMAND)))
