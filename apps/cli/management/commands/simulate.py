"""`manage.py simulate SCENARIO.json [--seed N]`: sites under one policy, simulated without a database."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.cli.case_files import TraceFiles, print_results, scenario_path, shipped_scenarios
from apps.cli.commands import BAD_INPUT
from apps.engine.simulation import simulate


class Command(BaseCommand):
    help = (
        "Simulate scenarios (JSON, one or a list) from files, '-', or by the name of one that comes with the project."
    )
    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own shape; a check might open the database

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="*", metavar="SCENARIO", help="a file, - for standard input, or a name")
        parser.add_argument("--seed", type=int, help="in place of the scenarios' own")
        parser.add_argument("--list", action="store_true", help="the scenarios that come with the project")

    def handle(self, *args: Any, files: list[str], seed: int | None, **options: Any) -> None:
        if options["list"]:
            for name, notes in shipped_scenarios().items():
                self.stdout.write(f"{name:34}  {notes}")
            return
        if not files:
            raise CommandError("Name a scenario: a file, - or one that --list shows.", returncode=BAD_INPUT)
        paths = [scenario_path(name) for name in files]
        traces = TraceFiles(paths)

        def solve(scenario: object) -> dict[str, Any]:
            return simulate(scenario, seed=seed, traces=traces, progress=_progress(scenario))

        print_results(self, paths, solve)


def _progress(scenario: object) -> Callable[[float], None] | None:
    """A counting line, on a terminal."""
    if not sys.stderr.isatty():
        return None
    name = scenario.get("id", "") if isinstance(scenario, dict) else ""
    label = "".join(letter for letter in str(name)[:60] if letter.isprintable())

    def show(part: float) -> None:
        sys.stderr.write(f"\r{label} {100 * part:3.0f} %" + ("\n" if part >= 1 else ""))
        sys.stderr.flush()

    return show
