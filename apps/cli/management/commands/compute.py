"""`manage.py compute FILE…|-`: compute priorities of cases from files, without a database."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from apps.engine.cases import solve
from apps.web.case_files import add_file_arguments, print_results


class Command(BaseCommand):
    help = "Computes priorities of cases (JSON, one or a list) from files, and prints the results. Needs no database."
    requires_system_checks: list[str] = []  # noqa: RUF012 - as in Django; checks might open the database

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_file_arguments(parser)

    def handle(self, *args: Any, files: list[str], **options: Any) -> None:
        print_results(self, files, solve)
