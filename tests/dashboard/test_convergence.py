"""Convergence as pages: verdict, figures, panels, tables and CSV; bad periods get an answer."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from django.test import Client

from tests.dashboard.grid import SLUG, Grid, make_grid
from tests.series_by_hand import HandMade, put_in_place

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LAST = date(2026, 11, 19)
PAGE = f"/policy/{SLUG}/convergence/"
DAYS = 40


@pytest.fixture
def grid(db: None, monkeypatch: pytest.MonkeyPatch) -> Grid:
    monkeypatch.setenv("FAIRSHARE_CLOCK", NOW.isoformat())
    return make_grid(NOW)


@pytest.fixture
def series(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> HandMade:
    """atlas grows past its 60 % since day 30; biomed waits below its 30 %; cms runs nothing."""
    grows = [600.0] * 30 + [700.0 + 60 * n for n in range(10)]
    shrinks = [300.0] * 30 + [100.0] * 10
    made = HandMade(
        LAST,
        {"/atlas/alice": grows, "/biomed/carol": shrinks, "/cms/dave": [0.0] * DAYS},
        waited={"/biomed/carol": [0.0] * 36 + [500.0] * 4},
    )
    return put_in_place(made, monkeypatch)


@pytest.fixture
def eva(grid: Grid, series: HandMade, client: Client) -> Client:
    client.force_login(grid.admin)
    return client


def text(client: Client, path: str, status: int = 200, **headers: str) -> str:
    answer = client.get(path, headers=headers)
    assert answer.status_code == status, answer.content[:2000]
    return answer.content.decode()


def test_the_page_opens(eva: Client) -> None:
    page = text(eva, PAGE)
    assert "Convergence of 3 entries in SweGrid" in page
