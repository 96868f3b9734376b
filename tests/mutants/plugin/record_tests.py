"""A pytest plugin: writes to TESTS_OUT what each test that passed took with its fixtures, and which world it is in."""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from pathlib import Path

import pytest

_seconds: defaultdict[str, float] = defaultdict(float)
_worlds: dict[str, str] = {}
_failed: set[str] = set()


def pytest_runtest_setup(item: pytest.Item) -> None:
    worlds = sys.modules.get("tests.worlds")  # not in a tree of before there were any, nor without Django
    named = worlds.named_by(getattr(item, "fixturenames", ())) if worlds else None
    if named:
        item.user_properties.append(("world", named))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] += report.duration
    _worlds.update((report.nodeid, str(value)) for name, value in report.user_properties if name == "world")
    if not report.passed:
        _failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        tests = {test: [seconds, _worlds.get(test, "")] for test, seconds in _seconds.items() if test not in _failed}
        Path(os.environ["TESTS_OUT"]).write_text(json.dumps(tests), encoding="utf-8")
