"""The appendix faults.md: each fault has tests that are marked with its name, and each figure is of one of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from apps.core.code_paths import REPOSITORY
from docsite import faults
from docsite.fault_promises import PROMISES
from docsite.marked_tests import function_of


def test_there_are_thirty_faults_and_each_has_tests() -> None:
    assert list(PROMISES) == [f"F{n}" for n in range(1, 31)]
    assert set(faults.tests_by_fault()) == set(PROMISES)


def test_no_mark_is_overlooked() -> None:
    """Marks stand at functions: at modules, classes and parameters the page doesn't look for them."""
    n_marks = sum(
        len(re.findall(r"^@pytest\.mark\.fault\(|mark\.fault\(", path.read_text(encoding="utf-8")))
        for path in (REPOSITORY / "tests").rglob("test_*.py")
        if path != Path(__file__)
    )
    assert n_marks == len({test for tests in faults.tests_by_fault().values() for test in tests})


def test_each_figure_is_of_a_marked_test() -> None:
    marked = {test for tests in faults.tests_by_fault().values() for test in tests}
    assert {function_of(test) for test in faults.figures()} <= marked
    assert faults.FIGURES.read_text(encoding="utf-8") == faults.stored_text(faults.figures())


def test_the_largest_figure_of_several_parameters_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(faults, "FIGURES", tmp_path / "figures.json")
    faults.FIGURES.write_text("{}")
    test = faults.tests_by_fault()["F1"][0]
    for parameter, value in (("a", 0.4), ("b", 2.5), ("c", 1.0)):
        measured = [faults.Figure(name="resumed after", value=value, unit="s", on="2026-11-28")]
        faults.store(f"{test}[{parameter}]", measured)
    [row] = [line for line in faults.table_of_faults().splitlines() if line.startswith("| F1 ")]
    assert row.endswith("| resumed after: 2.5 s (2026-11-28) |")
    [row] = [line for line in faults.table_of_faults().splitlines() if line.startswith("| F9 ")]
    assert row.endswith("| passes |")


def test_a_run_of_one_fault_stores_what_its_tests_measure(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = pytester.path / "figures.json"
    stored.write_text("{}")
    monkeypatch.setattr(faults, "FIGURES", stored)
    pytester.makepyfile("""
        import pytest

        @pytest.mark.fault("F1")
        def test_first(figure):
            figure("resumed after", 1.234, "s")

        @pytest.mark.fault("F1")
        def test_failing(figure):
            figure("resumed after", 99, "s")
            assert False

        @pytest.mark.fault("F10", "F2")
        def test_other(figure):
            figure("requests", 123.4, "")
    """)
    options = ("-p", "tests.faults_by_name", "-p", "no:django", "-o", "markers=fault", "--record-figures")
    pytester.runpytest_inprocess(*options, "--fault", "F1").assert_outcomes(passed=1, failed=1, deselected=1)
    pytester.runpytest_inprocess(*options, "--fault", "F2").assert_outcomes(passed=1, deselected=2)
    found = {test.partition("::")[2]: measured for test, measured in json.loads(stored.read_text()).items()}
    assert {test: [(one["name"], one["value"]) for one in measured] for test, measured in found.items()} == {
        "test_first": [("resumed after", 1.2)],
        "test_other": [("requests", 123)],
    }
