"""Whether a run ran what it collected: an aborted one doesn't pass by the tests that it never came to."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

_SHOWN = 10


class WholeRun:
    """Of one run: the tests that were collected, and those that reported."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._collected: set[str] = set()
        self._reported: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._collected.update(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Iterable[str]) -> None:
        self._collected.update(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reported.add(report.nodeid)

    def missing(self) -> list[str]:
        return sorted(self._collected - self._reported)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        is_stopped = bool(session.config.getoption("maxfail") or session.config.option.collectonly)
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and self.missing() and not is_stopped:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        missing = self.missing()
        if missing and not self._config.option.collectonly:
            terminalreporter.section("not run", red=True)
            for name in missing[:_SHOWN]:
                terminalreporter.write_line(name)
            terminalreporter.write_line(f"{len(missing)} of {len(self._collected)} collected tests were not run.")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(WholeRun(config), "whole_run")
