"""What tests of a paper's claims measure (`paper_value`), written as one report by `--paper-report FILE`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from docsite.marked_tests import function_of
from docsite.papers.records import Report, Value

_PROPERTY = "paper_value"
_DIGITS = 8  # what differs between processors is in the last of sixteen


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--paper-report", metavar="FILE", help="write what tests of the papers' claims measure")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("paper_report") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Reporter(Path(config.getoption("paper_report"))))


class _Reporter:
    """Keeps passed tests with their values; a test of several parameters has passed if all of them have."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failed: set[str] = set()
        self.report = Report(passed=[], values={})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(function_of(report.nodeid))
        elif report.when == "call" and report.passed:
            self.report["passed"].append(function_of(report.nodeid))
            values = [value for name, value in report.user_properties if name == _PROPERTY]
            if values:
                self.report["values"][report.nodeid] = values  # type: ignore[assignment]

    def pytest_sessionfinish(self) -> None:
        self.report["passed"] = sorted(set(self.report["passed"]) - self.failed)
        self.path.write_text(json.dumps(self.report), encoding="utf-8")


PaperValue = Callable[..., None]


@pytest.fixture
def paper_value(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> PaperValue:
    """Report our number of a claim that the test is marked with, and the paper's where it prints one."""
    marked = {claim for mark in request.node.iter_markers("paper") for claim in mark.args}

    def add(claim: str, name: str, ours: float, published: float | None = None, unit: str = "") -> None:
        assert claim in marked, f"the test is not marked with {claim}"
        rounded = float(f"{ours:.{_DIGITS}g}")
        record_property(_PROPERTY, Value(claim=claim, name=name, ours=rounded, published=published, unit=unit))

    return add
