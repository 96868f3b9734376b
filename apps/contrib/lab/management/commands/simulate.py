"""`manage.py simulate SCENARIO.json [--seed N] [--every H] [--csv]`: simulate sites under one policy."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.contrib.lab.scenario_files import TraceFiles, scenario_path, shipped_scenarios
from apps.contrib.lab.simulation import MOST_REPORTS, simulate
from apps.core import tables
from apps.core.operator_commands import BAD_INPUT
from apps.web.case_files import print_results

COLUMNS = (
    tables.Column("scenario"),
    tables.Column("seed", "whole"),
    tables.Column("hour", "number"),
    tables.Column("entry"),
    tables.Column("share_of_parent", "number"),
)


class Command(BaseCommand):
    help = (
        "Simulates scenarios (JSON, one or a list) from files, or scenarios of the project by name. Needs no database."
    )
    requires_system_checks: list[str] = []  # noqa: RUF012 - as in Django; checks might open the database

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "files", nargs="*", metavar="SCENARIO", help="file, - for standard input, or name of a scenario"
        )
        parser.add_argument("--seed", type=int, help="random seed, in place of the scenarios' own")
        parser.add_argument("--every", type=float, metavar="HOURS", help="interval between reports, for curves")
        parser.add_argument("--csv", action="store_true", help="print CSV, one line for each reported hour and entry")
        parser.add_argument("--list", action="store_true", help="list the scenarios of the project")

    def handle(self, *args: Any, files: list[str], seed: int | None, every: float | None, **options: Any) -> None:
        if options["list"]:
            for name, notes in shipped_scenarios().items():
                self.stdout.write(f"{name:34}  {notes}")
            return
        if not files:
            raise CommandError("Give a scenario: a file, -, or a name from --list.", returncode=BAD_INPUT)
        if every is not None and not 0 < every < float("inf"):
            raise CommandError("--every takes a number of hours above 0.", returncode=BAD_INPUT)
        paths = [scenario_path(name) for name in files]
        traces = TraceFiles(paths)

        def solve(scenario: object) -> dict[str, Any]:
            scenario = scenario if every is None else _reporting(scenario, every)
            return simulate(scenario, seed=seed, traces=traces, progress=_progress(scenario))

        print_results(self, paths, solve, table=_rows if options["csv"] else None, columns=COLUMNS)


def _reporting(scenario: object, every_h: float) -> object:
    """The scenario with reports at this interval and at its end. Invalid scenarios are rejected later, when read."""
    hours = scenario.get("hours") if isinstance(scenario, dict) else None
    if not isinstance(scenario, dict) or isinstance(hours, bool) or not isinstance(hours, int | float):
        return scenario
    n_steps = int(
        min(max(hours / every_h + 1e-9, 0.0), MOST_REPORTS + 1.0)
    )  # more reports are rejected when the scenario is read
    times = [min(n * every_h, hours) for n in range(1, n_steps + 1)]
    return {**scenario, "report_h": times if times and times[-1] == hours else [*times, hours]}


def _rows(result: dict[str, Any]) -> Iterator[Sequence[Any]]:
    for report in result["reports"]:
        for path, share in report["share_of_parent"].items():
            yield result["id"], result["seed"], report["hour"], path, share


def _progress(scenario: object) -> Callable[[float], None] | None:
    """A function that prints the progress; None unless standard error is a terminal."""
    if not sys.stderr.isatty():
        return None
    name = scenario.get("id", "") if isinstance(scenario, dict) else ""
    label = "".join(letter for letter in str(name)[:60] if letter.isprintable())

    def show(part: float) -> None:
        sys.stderr.write(f"\r{label} {100 * part:3.0f} %" + ("\n" if part >= 1 else ""))
        sys.stderr.flush()

    return show
