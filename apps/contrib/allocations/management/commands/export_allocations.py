"""`manage.py export_allocations --policy SLUG --format FORMAT`: write allocations as import_allocations reads them."""

from __future__ import annotations

import argparse
from typing import Any

from apps.accounts.actor import COMMAND
from apps.contrib.allocations.exchange.file_formats import FILE_FORMATS
from apps.contrib.allocations.exchange.services import list_exported
from apps.core.clock import now
from apps.core.operator_commands import OperatorCommand


class Command(OperatorCommand):
    help = "Writes the current allocations of a policy to standard output, as import_allocations reads them."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--policy", required=True, help="slug of the policy")
        parser.add_argument("--format", default="csv", choices=list(FILE_FORMATS), help="default: csv")

    def handle(self, *args: Any, **options: Any) -> None:
        rows = list_exported(policy_slug=options["policy"], at=now(), actor=COMMAND)
        self.stdout.ending = ""
        for piece in FILE_FORMATS[options["format"]].write(rows):
            self.stdout.write(piece)
