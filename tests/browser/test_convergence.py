"""Convergence in a browser: both themes, three widths, the keyboard, and without scripts."""

from __future__ import annotations

import re
from datetime import timedelta
from math import sin

import pytest
from playwright.sync_api import expect

from apps.core import clock
from apps.series.daily_series import SeriesState
from tests.browser.conftest import Open, at_widths
from tests.pages.grid import SLUG, Grid
from tests.series_by_hand import HandMade, put_in_place

PAGE = f"/policy/{SLUG}/convergence/"
N_DAYS = 60


@pytest.fixture
def wide_grid(long_grid: Grid, transactional_db: None) -> Grid:
    """Thirty members below biomed, so that there are several pages of panels."""
    return long_grid


@pytest.fixture
def made(wide_grid: Grid, monkeypatch: pytest.MonkeyPatch) -> HandMade:
    """Sixty days: a change of targets on day 25, before the first revision until day 10, two without data."""
    yesterday = clock.now().date() - timedelta(days=1)
    used = {
        "/atlas/alice": [400 + 90 * sin(n / 5) for n in range(N_DAYS)],
        "/biomed/carol": [250 - 2.5 * n for n in range(N_DAYS)],
        "/biomed/helper0001": [20 + 15 * sin(n / 3) for n in range(N_DAYS)],
        "/cms/dave": [0.0] * 20 + [80 + 3.0 * n for n in range(40)],
    }
    made = HandMade(
        yesterday,
        used,
        decay=0.8,
        waited={"/biomed/carol": [0.0] * 48 + [900.0] * 12},
        targets={"/atlas": [0.7] * 25 + [0.6] * 35, "/biomed": [0.2] * 25 + [0.3] * 35},
        revisions=[0] * 10 + [1] * 15 + [2] * 35,
    )
    gaps = {made.on[30]: ("Cluster A",), made.on[31]: ("Cluster A",)}
    monkeypatch.setattr("apps.series.convergence.selectors.list_gaps", lambda **_: gaps)
    return put_in_place(made, monkeypatch)


@pytest.mark.deep
@at_widths
def test_the_panels_fit_and_are_accessible_in_both_themes(
    made: HandMade, wide_grid: Grid, visit: Open, width: int
) -> None:
    window = visit(width=width)
    window.sign_in()
    page = window.go(f"{PAGE}?days=90")
    expect(page.locator("h1")).to_contain_text("3")
    for panel in page.locator(".panel-plot").all():
        panel.scroll_into_view_if_needed()
    expect(page.locator(".panel-plot .fig-wait")).to_have_count(0)
    window.look()
    biomed = wide_grid.uid("/biomed")
    page = window.go(f"/policy/{SLUG}/n/{biomed}/biomed/convergence/?days=90")
    expect(page.locator("#own")).to_have_text(re.compile("biomed.*SweGrid"))
    window.look()


@pytest.mark.deep
def test_days_are_read_with_arrow_keys_and_with_the_pointer(made: HandMade, visit: Open) -> None:
    """The panels are figures once they are near the window."""
    window = visit()
    window.sign_in()
    page = window.go(f"{PAGE}?days=90")
    panel = page.locator("[data-panel][data-drawn]").first
    plot = panel.locator(".panel-plot")
    plot.focus()
    page.keyboard.press("End")
    status = page.locator("#status")
    expect(status).to_contain_text("target")
    before = status.inner_text()
    page.keyboard.press("ArrowLeft")
    expect(status).not_to_have_text(before)
    plot.hover()
    expect(panel.locator(".hoverlayer")).to_contain_text("used")


@pytest.mark.deep
def test_further_panels_load_while_scrolling_and_keep_the_focus(made: HandMade, wide_grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go(f"/policy/{SLUG}/n/{wide_grid.uid('/biomed')}/biomed/convergence/")
    expect(page.locator("article[data-panel]")).to_have_count(12)
    for shown in (24, 32):
        page.locator(".more-panels").scroll_into_view_if_needed()
        expect(page.locator("article[data-panel]")).to_have_count(shown, timeout=30_000)
    expect(page.locator("article[data-panel]").last.locator(".panel-plot.is-live")).to_have_count(1)
    page.locator("h1").scroll_into_view_if_needed()
    expect(page.locator("article[data-panel]").first.locator(".panel-plot.is-live")).to_have_count(1)


@pytest.mark.deep
def test_the_page_is_complete_without_scripts(made: HandMade, wide_grid: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in()
    page = window.go(PAGE)
    page.click(".convergence-controls a[href='?days=90']")
    page.wait_for_url("**/convergence/?days=90")
    page.click(".more-choices summary")
    page.fill("#from", made.on[5].isoformat())
    page.fill("#to", made.on[20].isoformat())
    page.uncheck("[name=overlay][value=demand]")
    page.click(".more-choices button[type=submit]")
    expect(page.locator(".kpis")).to_contain_text("16")
    expect(page.locator("#panels-1 .vals")).to_have_count(3)
    expect(page.locator("#table tbody tr")).to_have_count(3)
    page.locator("#table > summary").press("Enter")
    page.go_back()
    page = window.go(f"/policy/{SLUG}/n/{wide_grid.uid('/biomed')}/biomed/convergence/")
    page.locator(".more-panels a").click()
    page.wait_for_url("**page=2")
    expect(page.locator("article[data-panel]")).to_have_count(12)
    page = window.go(f"/policy/{SLUG}/icicle/")
    page.locator(f".fig-table a[href*='{wide_grid.uid('/atlas')}']").click()
    expect(page.locator(".fig-controls .path [aria-current]")).to_have_text("atlas")
    window.look()


@pytest.mark.deep
@at_widths
def test_building_stale_and_error_states_are_accessible(made: HandMade, visit: Open, width: int) -> None:
    window = visit(width=width)
    window.sign_in()
    window.go(f"{PAGE}?from=2026-02-01&to=2026-01-01")
    window.look()
    made.state = SeriesState(run=7, progress=0.4)
    window.go(PAGE)
    window.look()
    made.state = SeriesState(made.on[0], made.to_on, stale_from_on=made.on[-3])
    window.go(PAGE)
    window.look()
