"""Whether a run ran what it collected: an aborted one doesn't pass by the tests that it never came to.

`--outcome FILE` keeps what `tests/gate.py` judges by: the names of tests that failed and of those that passed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

_SHOWN = 10


class WholeRun:
    """Of one run: the tests that were collected, those that reported, those that failed, and workers that crashed."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._collected: set[str] = set()
        self._reported: set[str] = set()
        self._failed: set[str] = set()
        self._skipped: set[str] = set()
        self._n_crashed = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._collected.update(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Iterable[str]) -> None:
        self._collected.update(ids)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, error: object) -> None:
        self._n_crashed += error is not None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reported.add(report.nodeid)
        if report.failed:
            self._failed.add(report.nodeid)
        if report.skipped:
            self._skipped.add(report.nodeid)

    def missing(self) -> list[str]:
        return sorted(self._collected - self._reported)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        is_stopped = bool(session.config.getoption("maxfail") or session.config.option.collectonly)
        is_part = bool(self.missing() and not is_stopped) or self._n_crashed > 0
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and is_part:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
        if outcome := self._config.getoption("outcome"):
            passed = self._reported - self._failed - self._skipped
            lists = {"missing": self.missing(), "failed": sorted(self._failed), "passed": sorted(passed)}
            Path(outcome).write_text(json.dumps(lists), encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        missing = self.missing()
        if missing and not self._config.option.collectonly:
            terminalreporter.section("not run", red=True)
            for name in missing[:_SHOWN]:
                terminalreporter.write_line(name)
            terminalreporter.write_line(f"{len(missing)} of {len(self._collected)} collected tests were not run.")
        if self._n_crashed:
            terminalreporter.write_line(f"{self._n_crashed} workers crashed: the run doesn't pass.", red=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcome", metavar="FILE", help="write the names of failed, passed and missing tests as JSON")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(WholeRun(config), "whole_run")
