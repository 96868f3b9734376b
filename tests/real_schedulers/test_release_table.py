"""The table by release at the end of a run: cells of all its tests, or the worst of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.real_schedulers import release_table

Report = pytest.TestReport
NAME = "tests/test_round.py::test_it[26.05]"


def report(version: str, *measured: tuple[str, Any], scheduler: str = "slurm", outcome: Any = "passed") -> Report:
    properties: list[tuple[str, Any]] = [(release_table.SCHEDULER, scheduler), (release_table.VERSION, version)]
    properties += [(release_table.MEASURED, cell) for cell in measured]
    made = Report(NAME, ("file", 0, NAME), {}, outcome, None, "call", user_properties=properties)
    # As it comes from another process of a run.
    return Report._from_json(made._to_json())


def test_cells_are_added_up_or_the_worst_of_a_version_in_the_order_of_versions() -> None:
    reports = [
        report("24.11.5", ("FairShare equal", (15, 16)), ("largest relative difference", 2e-7)),
        report("22.05.8", ("FairShare equal", (16, 16)), ("inversions: publish", 0)),
        report("24.11.5", ("FairShare equal", (8, 8)), ("largest relative difference", 5e-7), outcome="failed"),
        report("24.11.5", ("seconds until obeyed", 31.25), ("inversions: new jobs", 2), ("inversions: new jobs", 1)),
        report("23.9.6", ("factors handed back", "2 of 2"), scheduler="htcondor"),
        report("8.1.9", scheduler="gridengine"),
        report("8.1.10", scheduler="gridengine"),
    ]
    measured = release_table.measured_rows(reports)
    assert list(measured) == ["slurm", "gridengine", "htcondor"]
    assert list(measured["gridengine"]) == ["8.1.9", "8.1.10"]
    assert measured["slurm"] == {
        "22.05.8": {"FairShare equal": "16 of 16", "inversions: publish": "0", "tests passed": "1 of 1"},
        "24.11.5": {
            "FairShare equal": "23 of 24",
            "largest relative difference": "5.0e-07",
            "seconds until obeyed": "31.2",
            "inversions: new jobs": "3",
            "tests passed": "2 of 3",
            "tests failed": "test_round.py::test_it[26.05]",
        },
    }
    rows = release_table.lines("htcondor", measured["htcondor"])
    assert rows == [
        "| HTCondor | factors handed back | tests passed |",
        "|----------|---------------------|--------------|",
        "| 23.9.6   | 2 of 2              | 1 of 1       |",
    ]


@pytest.mark.parametrize(
    ("stored", "row", "ran", "wanted"),
    [
        (("5 of 6", "a"), ("1 of 1", ""), [("a", True)], ("6 of 6", "")),
        (("4 of 6", "a, b"), ("1 of 2", "a"), [("a", False), ("c", True)], ("4 of 6", "b, a")),
        (("6 of 6", ""), ("0 of 1", "c"), [("c", False)], ("5 of 6", "c")),
        (("5 of 6", ""), ("1 of 1", ""), [("a", True)], ("5 of 6", "")),  # which failed isn't known
    ],
)
def test_a_part_that_ran_again_changes_the_number_of_all_by_its_own_tests(
    stored: tuple[str, str], row: tuple[str, str], ran: list[tuple[str, bool]], wanted: tuple[str, str]
) -> None:
    columns = (release_table.PASSED, release_table.FAILED)
    now = {**dict(zip(columns, row, strict=True)), "seconds until obeyed": "31.2"}
    after = release_table.row_of_part(dict(zip(columns, stored, strict=True)), now, ran)
    assert after == {**dict(zip(columns, wanted, strict=True)), "seconds until obeyed": "31.2"}


def test_a_part_of_a_version_that_never_ran_whole_has_no_number_of_tests() -> None:
    row = {release_table.PASSED: "1 of 1", "seconds until obeyed": "31.2"}
    assert release_table.row_of_part({}, row, [("a", True)]) == {"seconds until obeyed": "31.2"}


def test_a_test_without_a_scheduler_is_in_no_table() -> None:
    other = Report("test_it", ("file", 0, "test_it"), {}, "passed", None, "call")
    assert release_table.measured_rows([other]) == {}


def test_what_fails_on_unstable_is_named_with_its_version() -> None:
    assert release_table.failed_on_unstable([report("26.11.1")]) == [f"{NAME} (Slurm 26.11.1)"]
