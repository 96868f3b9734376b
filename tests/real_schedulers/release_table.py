"""What tests measured with each release of a scheduler, as tables at the end of a run, and what failed on unstable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from docsite.schedulers import numbers_of

# Kept with a test's report, so that a run with several processes has them, too.
SCHEDULER, VERSION, MEASURED = "scheduler", "scheduler version", "measured"
TITLES = {"slurm": "Slurm", "gridengine": "Grid Engine", "htcondor": "HTCondor"}
# Of several values of a version the one that says most: all that were counted, or the worst. Of other columns the last.
COLUMNS: dict[str, Callable[[list[Any]], str]] = {
    "FairShare equal": lambda pairs: f"{sum(equal for equal, _ in pairs)} of {sum(users for _, users in pairs)}",
    "largest relative difference": lambda values: f"{max(values):.1e}",
    "seconds until obeyed": lambda values: f"{max(values):.1f}",
    "inversions: publish": lambda values: str(sum(values)),
    "inversions: outage": lambda values: str(sum(values)),
    "inversions: new jobs": lambda values: str(sum(values)),
}
PASSED, FAILED = "tests passed", "tests failed"
Report = pytest.TestReport
Row = dict[str, str]  # column → cell
Rows = dict[str, Row]  # by version, the oldest first
Place = tuple[str, str]  # scheduler and version


def measured_rows(reports: list[Report]) -> dict[str, Rows]:
    """By scheduler, in the order of TITLES; empty without a test that named one."""
    measured: defaultdict[Place, dict[str, list[Any]]] = defaultdict(dict)
    outcomes = outcomes_of(reports)
    for report in reports:
        place = _place_of(report)
        for name, value in report.user_properties:
            if place is not None and name == MEASURED:
                cell: tuple[str, Any] = value  # type: ignore[assignment]
                measured[place].setdefault(cell[0], []).append(cell[1])
    rows: dict[str, Rows] = {}
    for scheduler in TITLES:
        versions = sorted((version for name, version in outcomes if name == scheduler), key=numbers_of)
        for version in versions:
            place = scheduler, version
            cells = measured[place]
            order = [*filter(cells.__contains__, COLUMNS), *(column for column in cells if column not in COLUMNS)]
            row = {column: COLUMNS.get(column, _last)(cells[column]) for column in order}
            failed = dict.fromkeys(name for name, has_passed in outcomes[place] if not has_passed)
            row[PASSED] = f"{sum(has_passed for _name, has_passed in outcomes[place])} of {len(outcomes[place])}"
            row |= {FAILED: ", ".join(failed)} if failed else {}
            rows.setdefault(scheduler, {})[version] = row
    return rows


def outcomes_of(reports: list[Report]) -> dict[Place, list[tuple[str, bool]]]:
    """Of each test its name, without the folder, and whether it passed."""
    outcomes: dict[Place, list[tuple[str, bool]]] = {}
    for report in reports:
        place = _place_of(report)
        if place is not None:
            name = report.nodeid.rpartition("/")[2]
            outcomes.setdefault(place, []).append((name, report.outcome == "passed"))
    return outcomes


def _place_of(report: Report) -> Place | None:
    properties = dict(report.user_properties)
    if SCHEDULER not in properties or VERSION not in properties:
        return None
    return str(properties[SCHEDULER]), str(properties[VERSION])


def row_of_part(stored: Mapping[str, str], row: Mapping[str, str], outcomes: Sequence[tuple[str, bool]]) -> Row:
    """What is stored after a part of the tests ran again: of all tests as many failed as failed last."""
    if PASSED not in stored:
        return {name: cell for name, cell in row.items() if name not in (PASSED, FAILED)}
    n_passed, n_tests = (int(number) for number in stored[PASSED].split(" of "))
    before, ran = _names(stored), {name for name, _has_passed in outcomes}
    failed = [*(name for name in before if name not in ran), *_names(row)]
    n_unnamed = n_tests - n_passed - len(before)
    return {**row, PASSED: f"{n_tests - n_unnamed - len(failed)} of {n_tests}", FAILED: ", ".join(failed)}


def _names(row: Mapping[str, str]) -> list[str]:
    return [name for name in row.get(FAILED, "").split(", ") if name]


def _last(values: list[Any]) -> str:
    return str(values[-1])


def lines(scheduler: str, rows: Rows) -> list[str]:
    """The table of one scheduler, in Markdown."""
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    cells = [[TITLES[scheduler], *columns]]
    cells += [[version, *(row.get(column, "–") for column in columns)] for version, row in rows.items()]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    shown = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
    return [
        f"| {shown[0]} |",
        "|" + "|".join("-" * (width + 2) for width in widths) + "|",
        *(f"| {row} |" for row in shown[1:]),
    ]


def failed_on_unstable(reports: list[Report]) -> list[str]:
    """Tests that failed where failing is only reported, each with the version that it ran with."""
    return [f"{report.nodeid} (Slurm {dict(report.user_properties).get(VERSION, 'unknown')})" for report in reports]
