"""Tests begin with those that took longest in the last runs, dealt out to the workers: none ends long after the others.

A first run knows no times. A limit of its own, above the suite's, says that a test takes long; then its folder decides.
`--changed` keeps the order of the command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest

KEPT = "fairshare/seconds"
LONG_S = 2.0
T = TypeVar("T")
FOLDERS = ("faults", "ring", "acceptance", "cli", "docsite", "browser", "pages")


class Seconds:
    """Of a run: how long each test took with its fixtures, if it took at least LONG_S."""

    def __init__(self, config: pytest.Config) -> None:
        self._cache = getattr(config, "cache", None)  # none under -p no:cacheprovider
        self._took: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took[report.nodeid] = self._took.get(report.nodeid, 0.0) + report.duration

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        if self._cache is None or not self._took:
            return
        others = {name: took for name, took in self._cache.get(KEPT, {}).items() if name not in self._took}
        own = {name: round(took, 1) for name, took in self._took.items() if took >= LONG_S}
        self._cache.set(KEPT, others | own)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--changed", action="store_true", help="tests in the order in which they are named")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Seconds(config), "seconds")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.pluginmanager.hasplugin("randomly"):
        return
    n_workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if config.getoption("changed"):
        items[:] = deal(items, len(items), n_workers)
        return
    cache = getattr(config, "cache", None)
    took = cache.get(KEPT, {}) if cache is not None else {}
    usual_s = float(config.getini("timeout") or 0)
    ranked = sorted(items, key=lambda item: _rank(item, took, usual_s))
    n_long = sum(_seconds(item, took, usual_s) >= LONG_S for item in items)
    items[:] = deal(ranked, n_long, n_workers)


def _seconds(item: pytest.Item, took: dict[str, float], usual_s: float) -> float:
    """What it took, else a fifth of the limit that it is allowed beyond the usual one."""
    marker = item.get_closest_marker("timeout")
    allowed_s = float(marker.args[0]) if marker and marker.args else 0.0
    return took.get(item.nodeid, allowed_s / 5 if not took and allowed_s > usual_s else 0.0)


def _rank(item: pytest.Item, took: dict[str, float], usual_s: float) -> tuple[float, int]:
    seconds = _seconds(item, took, usual_s)
    parts = Path(item.nodeid.split("::")[0]).parts
    folder = next((n for n, name in enumerate(FOLDERS) if name in parts), len(FOLDERS))
    return (-seconds if seconds >= LONG_S else 0.0), folder


def deal(ranked: Sequence[T], n_long: int, n_workers: int) -> list[T]:
    """The order in which each worker, which runs an equal part, begins with its share of the first n_long.

    xdist's `worksteal` gives worker k the k-th part of `len(ranked)` tests; the first parts are the smaller ones.
    """
    long, others = ranked[:n_long], list(ranked[n_long:])
    dealt: list[T] = []
    left = len(ranked)
    for worker in range(n_workers):
        size = left // (n_workers - worker)
        left -= size
        own = list(long[worker::n_workers])
        n_others = max(0, size - len(own))
        dealt += own + others[:n_others]
        del others[:n_others]
    return dealt + others
