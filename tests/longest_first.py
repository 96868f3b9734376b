"""Tests begin with those that took longest in the last runs, dealt out to the workers: none ends long after the others.

Tests that share a fixture of their module stay together: it is made anew after a test of another module. A first run
knows no times. A limit of its own, above the suite's, says that a test takes long; then its folder decides.
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


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Seconds(config), "seconds")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.pluginmanager.hasplugin("randomly"):
        return
    n_workers = getattr(config, "workerinput", {}).get("workercount", 1)
    cache = getattr(config, "cache", None)
    took = cache.get(KEPT, {}) if cache is not None else {}
    usual_s = float(config.getini("timeout") or 0)
    groups = [(sum(_seconds(item, took, usual_s) for item in group), group) for group in _groups(items)]
    groups.sort(key=lambda group: _rank(*group))
    long = [group for group in groups if group[0] >= LONG_S]
    others = [item for _, group in groups[len(long) :] for item in group]
    items[:] = deal(long, others, n_workers)


def _groups(items: Sequence[pytest.Item]) -> list[list[pytest.Item]]:
    """Tests that share fixtures of a module, with the same parameters of these; any other test alone."""
    groups: dict[object, list[pytest.Item]] = {}
    for item in items:
        made = getattr(item, "_fixtureinfo", None)
        defined = made.name2fixturedefs if made else {}
        shared = sorted(name for name, found in defined.items() if found[-1].scope == "module")
        indices = item.callspec.indices if hasattr(item, "callspec") else {}
        key = (item.path, *((name, indices[name]) for name in shared if name in indices)) if shared else item.nodeid
        groups.setdefault(key, []).append(item)
    return list(groups.values())


def _seconds(item: pytest.Item, took: dict[str, float], usual_s: float) -> float:
    """What it took, else a fifth of the limit that it is allowed beyond the usual one."""
    marker = item.get_closest_marker("timeout")
    allowed_s = float(marker.args[0]) if marker and marker.args else 0.0
    return took.get(item.nodeid, allowed_s / 5 if not took and allowed_s > usual_s else 0.0)


def _rank(seconds: float, group: Sequence[pytest.Item]) -> tuple[float, int]:
    parts = Path(group[0].nodeid.split("::")[0]).parts
    folder = next((n for n, name in enumerate(FOLDERS) if name in parts), len(FOLDERS))
    return (-seconds if seconds >= LONG_S else 0.0), folder


def deal(long: Sequence[tuple[float, Sequence[T]]], others: Sequence[T], n_workers: int) -> list[T]:
    """The order in which each worker, which runs an equal part, begins with its share of the long ones.

    long: groups with their seconds, the longest first; each goes to the worker that has least to do. xdist's
    `worksteal` gives worker k the k-th part of all tests; the first parts are the smaller ones.
    """
    begin: list[list[T]] = [[] for _ in range(n_workers)]
    seconds = [0.0] * n_workers
    for its_seconds, group in long:
        worker = seconds.index(min(seconds))
        begin[worker] += group
        seconds[worker] += its_seconds
    rest = list(others)
    left = len(rest) + sum(map(len, begin))
    dealt: list[T] = []
    for worker, own in enumerate(begin):
        size = left // (n_workers - worker)
        left -= size
        n_others = max(0, size - len(own))
        dealt += own + rest[:n_others]
        del rest[:n_others]
    return dealt + rest
