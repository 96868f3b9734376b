"""`manage.py jobs FILE…|-`: compute priorities of jobs from files, without a database."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from apps.contrib.jobs.algorithms import solve_job_case
from apps.web.case_files import add_file_arguments, print_results


class Command(BaseCommand):
    help = (
        "Computes priorities of jobs (JSON, one case or a list) from files, and prints the results. Needs no database."
    )
    requires_system_checks: list[str] = []  # noqa: RUF012 - as in Django; checks might open the database

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_file_arguments(parser)

    def handle(self, *args: Any, files: list[str], **options: Any) -> None:
        print_results(self, files, solve_job_case)
