"""Tests of a fault by its name (`--fault F5`), and the figures that they measure (`--record-figures`)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from docsite import faults

_PROPERTY = "figure"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fault", metavar="F5", help="only the tests that are marked with this fault")
    parser.addoption("--record-figures", action="store_true", help=f"store what they measure in {faults.FIGURES.name}")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("record_figures") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Recorder())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if name := config.getoption("fault"):
        left_out = {item for item in items if all(name not in mark.args for mark in item.iter_markers("fault"))}
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


class _Recorder:
    """Stores the figures of tests that passed."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            measured = [value for name, value in report.user_properties if name == _PROPERTY]
            if measured:
                faults.store(report.nodeid, measured)  # type: ignore[arg-type]


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str, float, str], None]:
    """Name, value and unit of something that the test measured; printed, too."""

    def add(name: str, value: float, unit: str) -> None:
        rounded = float(f"{value:.2g}") if value < 100 else round(value)
        print(f"{name}: {rounded:g} {unit}")
        record_property(
            _PROPERTY, faults.Figure(name=name, value=rounded, unit=unit, on=f"{datetime.now(UTC):%Y-%m-%d}")
        )

    return add
