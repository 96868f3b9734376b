"""A pytest plugin: writes to DURATIONS_OUT how long each test that passed took, with its fixtures."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

_seconds: Counter[str] = Counter()
_failed: set[str] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] += report.duration
    if not report.passed:
        _failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        passed = {nodeid: seconds for nodeid, seconds in _seconds.items() if nodeid not in _failed}
        Path(os.environ["DURATIONS_OUT"]).write_text(json.dumps(passed), encoding="utf-8")
