"""The clock of every page's test is at AT; a grid that all users see, and one that shows people their own path."""

from __future__ import annotations

import pytest

from tests.instants import AT
from tests.pages.grid import Grid
from tests.rest_site import admin, computed, scheduler, site

__all__ = ["admin", "computed", "scheduler", "site"]


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())


@pytest.fixture
def grid(open_grid: Grid) -> Grid:
    return open_grid


@pytest.fixture
def closed(closed_grid: Grid) -> Grid:
    return closed_grid
