"""Scenarios that come with the project, and small ones to vary."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apps.contrib.lab import simulation
from apps.contrib.lab.simulation import columns

SHIPPED = Path(simulation.__file__).parent / "scenarios"
Scenario = dict[str, Any]


@pytest.fixture
def always_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machine code for however few jobs, where numba is installed."""
    monkeypatch.setattr(columns, "FEWEST_COMPILED", 0)


@pytest.fixture(scope="session")
def shipped() -> Callable[[str], Scenario]:
    """A scenario that comes with the project, as a copy of one's own."""

    def read(name: str, **changes: Any) -> Scenario:
        found: Scenario = json.loads((SHIPPED / f"{name}.json").read_text(encoding="utf-8"))
        return found | changes

    return read


@pytest.fixture
def small() -> Scenario:
    """Two sites of ten processors, two groups with two users each, more work than they can do."""
    users = ["/a/x", "/a/y", "/b/x", "/b/y"]
    return {
        "id": "small",
        "hours": 24,
        "seed": 1,
        "sites": [{"name": "R1", "cpus": 10}, {"name": "R2", "cpus": 10}],
        "policy": {
            "name": "root",
            "children": [
                {
                    "name": "a",
                    "shares": 60,
                    "scope": "global",
                    "children": [{"name": "x", "shares": 3}, {"name": "y", "shares": 1}],
                },
                {"name": "b", "shares": 40, "children": [{"name": "x", "shares": 1}, {"name": "y", "shares": 1}]},
            ],
        },
        "algorithm": {"name": "gridwide"},
        "usage": {"local": "active", "global": "predictive", "global_refresh_s": 60},
        "workload": [{"entry": path, "every_s": 300, "run_h": [0.6, 1.4]} for path in users],
        "report_h": [0, 1, 12, 24],
    }
