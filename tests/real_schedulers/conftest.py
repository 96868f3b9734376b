"""Real schedulers for tests, shared by the tests of one file, and what they measured by release."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from docsite import schedulers
from tests.real_schedulers import release_table
from tests.real_schedulers.gridengine_site import GridEngineSite, running_gridengine
from tests.real_schedulers.releases import RELEASES, release_params
from tests.real_schedulers.slurm_site import SlurmSite, running_slurm


@pytest.fixture(scope="module", params=release_params())
def release(request: pytest.FixtureRequest) -> str:
    """Of Slurm, by name: each test that asks for it runs on every one. `running_slurm(…, release=release)`."""
    name: str = request.param
    return name


@pytest.fixture(autouse=True)
def _say_version(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> None:
    """Which scheduler a test ran with. One of HTCondor says it by `measure`, once its pool is up."""
    version = ""
    if "release" in request.fixturenames:
        scheduler, version = "slurm", RELEASES[request.getfixturevalue("release")].version()
    elif "gridengine" in request.fixturenames:
        scheduler, version = "gridengine", request.getfixturevalue("gridengine").version()
    if version:
        record_property(release_table.SCHEDULER, scheduler)
        record_property(release_table.VERSION, version)


class Measure:
    """measure(column, value): a cell of the tables at the end of a run."""

    def __init__(self, record: Callable[[str, object], None]) -> None:
        self._record = record

    def with_version(self, scheduler: str, version: str) -> None:
        self._record(release_table.SCHEDULER, scheduler)
        self._record(release_table.VERSION, version)

    def __call__(self, column: str, value: Any) -> None:
        self._record(release_table.MEASURED, (column, value))


@pytest.fixture
def measure(record_property: Callable[[str, object], None]) -> Measure:
    return Measure(record_property)


@pytest.fixture(scope="module")
def slurm(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmSite]:
    """Slurm with slurmdbd and slurmrestd and no account but root; for one file of tests, once for each release."""
    with running_slurm(tmp_path_factory.mktemp("slurm"), release=release) as site:
        yield site


@pytest.fixture(scope="module")
def gridengine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GridEngineSite]:
    """Grid Engine with one queue of eight slots; for one file of tests."""
    with running_gridengine(tmp_path_factory.mktemp("gridengine")) as site:
        yield site


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "site"
    made.mkdir()
    return made


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table of each scheduler; and by name what failed on unstable, where a failure doesn't fail the run."""
    stats, options = terminalreporter.stats, terminalreporter.config.option
    is_whole = options.file_or_dir == ["tests/real_schedulers"] and not options.keyword
    reports = [report for outcome in ("passed", "failed", "xpassed", "xfailed") for report in stats.get(outcome, [])]
    outcomes = release_table.outcomes_of(reports)
    for scheduler, rows in release_table.measured_rows(reports).items():
        terminalreporter.section(release_table.TITLES[scheduler])
        terminalreporter.write_line("\n".join(release_table.lines(scheduler, rows)))
        if terminalreporter.config.getoption("record_figures"):
            for version, row in rows.items():
                before = schedulers.figures().get(scheduler, {}).get(version, {})
                measured = row if is_whole else release_table.row_of_part(before, row, outcomes[scheduler, version])
                of_today = {release_table.FAILED: "", **measured, "on": f"{datetime.now(UTC):%Y-%m-%d}"}
                schedulers.store(scheduler, version, of_today)
    for line in release_table.failed_on_unstable(stats.get("xfailed", [])):
        terminalreporter.line(f"FAILED ON DEBIAN UNSTABLE: {line}", red=True, bold=True)
