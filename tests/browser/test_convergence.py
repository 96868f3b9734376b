"""Convergence and icicle in a browser: both themes, three widths, the keyboard, and without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from math import sin

import pytest
from playwright.sync_api import expect

from apps.priorities import served
from tests.browser.conftest import Open
from tests.dashboard.grid import SLUG, Grid, make_grid
from tests.series_by_hand import HandMade, put_in_place

WIDTHS = (1440, 1024, 390)
PAGE = f"/policy/{SLUG}/convergence/"
N_DAYS = 60


@pytest.fixture
def wide_grid(transactional_db: None) -> Iterator[Grid]:
    """Thirty members below biomed, so that there are several pages of panels."""
    served.forget()
    yield make_grid(datetime.now(UTC), extra_users=30)
    served.forget()


@pytest.fixture
def made(wide_grid: Grid, monkeypatch: pytest.MonkeyPatch) -> HandMade:
    """Sixty days: a change of targets on day 25, before the first revision until day 10, two without data."""
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    used = {
        "/atlas/alice": [400 + 90 * sin(n / 5) for n in range(N_DAYS)],
        "/biomed/carol": [250 - 2.5 * n for n in range(N_DAYS)],
        "/biomed/helper0001": [20 + 15 * sin(n / 3) for n in range(N_DAYS)],
        "/cms/dave": [0.0] * 20 + [80 + 3.0 * n for n in range(40)],
    }
    made = HandMade(
        yesterday, used, decay=0.8, waited={"/biomed/carol": [0.0] * 48 + [900.0] * 12},
        targets={"/atlas": [0.7] * 25 + [0.6] * 35, "/biomed": [0.2] * 25 + [0.3] * 35},
        revisions=[0] * 10 + [1] * 15 + [2] * 35,
    )  # fmt: skip
    gaps = {made.on[30]: ("Cluster A",), made.on[31]: ("Cluster A",)}
    monkeypatch.setattr("apps.priorities.convergence.reading.list_gaps", lambda **_: gaps)
    return put_in_place(made, monkeypatch)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_panels_fit_and_are_clean_in_both_themes(made: HandMade, wide_grid: Grid, visit: Open, width: int) -> None:
    window = visit(width=width)
    window.sign_in()
    page = window.go(f"{PAGE}?days=90")
    expect(page.locator("h1")).to_contain_text("Convergence of 3 entries")
    expect(page.locator("svg.panel-chart")).to_have_count(3)
    window.look()
    biomed = wide_grid.uid("/biomed")
    page = window.go(f"/policy/{SLUG}/n/{biomed}/biomed/convergence/?days=90")
    expect(page.locator("#own")).to_contain_text("biomed in SweGrid")
    window.look()
    window.go(f"/policy/{SLUG}/icicle/")
    expect(window.page.locator("svg.ice:visible a").first).to_be_visible()
    window.look()
