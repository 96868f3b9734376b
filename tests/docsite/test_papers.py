"""The appendix papers.md: each claim has marked tests that passed in the last run, or a reason; no mark is of none."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from pathlib import Path

import pytest
from django.core.management import call_command

from apps.core.code_paths import REPOSITORY
from apps.engine.analysis import job_size
from docsite.marked_tests import function_of, marked_tests
from docsite.papers import measuring, page, records, sweep
from docsite.papers.claims import CLAIMS

ME = Path(__file__)


def test_each_claim_has_tests_or_a_reason_and_each_mark_is_of_a_claim() -> None:
    tested = {name for name, claim in CLAIMS.items() if not claim.untested}
    assert set(marked_tests(page.MARK)) == tested


def test_no_mark_is_overlooked() -> None:
    """Marks stand at functions: at modules, classes and parameters the page doesn't look for them."""
    n_marks = sum(
        path.read_text(encoding="utf-8").count("mark.paper(")
        for path in (REPOSITORY / "tests").rglob("test_*.py")
        if path != ME
    )
    assert n_marks == len({test for tests in marked_tests(page.MARK).values() for test in tests})


def test_each_marked_test_passed_in_the_stored_run_and_no_other_is_stored() -> None:
    stored = records.load()["tests"]
    marked = {test for tests in marked_tests(page.MARK).values() for test in tests}
    assert set(stored["passed"]) == marked, "run `make papers`"
    for test, values in stored["values"].items():
        assert all(function_of(test) in marked_tests(page.MARK)[value["claim"]] for value in values)
    assert records.PATH.read_text(encoding="utf-8") == records.text_of(records.load())


@pytest.mark.deep
def test_every_claim_and_every_figure_is_on_the_page_once() -> None:
    text = (REPOSITORY / "docs/appendices/papers.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w.]+) \| ", text, re.MULTILINE)
    for name in CLAIMS:
        assert rows.count(name) == 1, name
    for path, drawing in page.drawings():
        assert text.count(f"(../pictures/{path})") == 1
        assert len(drawing) < 60_000
        assert "<script" not in drawing


def test_a_report_has_the_values_of_passed_tests_only(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest

        @pytest.mark.paper("O1")
        @pytest.mark.parametrize("number", [1, 2])
        def test_first(number, paper_value):
            paper_value("O1", "cells", number / 3, 14)

        @pytest.mark.paper("O2")
        @pytest.mark.parametrize("number", [1, 2])
        def test_partly_failing(number, paper_value):
            assert number == 1

        @pytest.mark.paper("O3")
        def test_of_another_claim(paper_value):
            paper_value("O4", "cells", 1)
    """)
    options = ("-p", "tests.papers_by_claim", "-p", "no:django", "-o", "markers=paper", "--paper-report", "report.json")
    pytester.runpytest_inprocess(*options).assert_outcomes(passed=3, failed=2)
    report = json.loads((pytester.path / "report.json").read_text())
    assert [test.rpartition("::")[2] for test in report["passed"]] == ["test_first"]
    values = {test.rpartition("::")[2]: value for test, [value] in report["values"].items()}
    assert values == {
        f"test_first[{number}]": {"claim": "O1", "name": "cells", "ours": ours, "published": 14, "unit": ""}
        for number, ours in ((1, 0.33333333), (2, 0.66666667))
    }


@pytest.mark.parametrize("name", ["converge-predictive", "idle-U-B12"])
def test_a_stored_curve_is_what_its_scenario_gives(name: str) -> None:
    """The others, and all of the sweep, are compared by `make papers`."""
    stored = records.load()
    assert measuring.run_scenario(name) == (stored["curves"][name], stored["rms"][name])


def test_a_stored_row_of_the_sweep_is_what_its_setting_gives() -> None:
    row = records.load()["sweep"][0]
    assert sweep.run((row["shape"], row["noise"], row["resolution"], row["operator"])) == row
    settings = [(one["shape"], one["noise"], one["resolution"], one["operator"]) for one in records.load()["sweep"]]
    assert settings == list(sweep.settings())


PAGE = (REPOSITORY / "docs/appendices/papers.md").read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"`manage\.py ((?:analyse|simulate) [^`]+)`", PAGE)))


@pytest.mark.parametrize(
    "command",
    [pytest.param(each, marks=pytest.mark.deep if each.startswith("simulate ") else ()) for each in COMMANDS],
)
def test_each_printed_command_runs_without_a_database(command: str) -> None:
    name, *words = shlex.split(command)
    out = io.StringIO()
    call_command(name, *words, stdout=out)
    if name != "simulate" or "--csv" in words:
        assert len(out.getvalue().splitlines()) > 3
        return
    (result,) = json.loads(out.getvalue())
    assert result["id"] == words[0]
    assert 0 < result["jobs"]["finished"] <= result["jobs"]["started"] <= result["jobs"]["submitted"]


def test_the_printed_commands_are_found() -> None:
    """Others are names of commands, whose files are the reader's."""
    others = re.findall(r"`manage\.py (?!analyse |simulate )(\w+) ([^`]+)`", PAGE)
    assert set(others) == {("federation", "mount"), ("federation", "publish")}
    assert len([each for each in COMMANDS if each.startswith("analyse ")]) >= 12
    assert len([each for each in COMMANDS if each.startswith("simulate ")]) >= 12


def test_the_command_of_figure_17_prints_the_bits_of_the_page() -> None:
    (command,) = (each for each in COMMANDS if each.startswith("analyse bits"))
    out = io.StringIO()
    name, *words = shlex.split(command)
    call_command(name, *words, "--csv", stdout=out)
    printed = {(row["operator"], row["region"]): row for row in csv.DictReader(io.StringIO(out.getvalue()))}
    assert len(printed) == 28
    for operator in job_size.PUBLISHED:
        cells = [printed[operator, region] for region in job_size.COLUMNS]
        texts = " | ".join(f"{cell['bits']} ({cell['published']})" for cell in cells)
        assert f"| {operator} | {texts} |" in PAGE


@pytest.mark.parametrize(
    ("shares", "hour"),
    [([48.0, 49.5, 50.0], 1.0), ([49.5, 48.0, 50.0], 1.5), ([50.0, 50.0, 48.9], None), ([50.0, 50.0, 50.0], 0.5)],
)
def test_shares_are_on_target_from_the_hour_after_which_none_leaves(shares: list[float], hour: float | None) -> None:
    reports = [{"hour": (n + 1) / 2, "share_of_parent": {"/a": share}} for n, share in enumerate(shares)]
    assert sweep.hours_to_target(reports, {"/a": 50.0}) == hour
