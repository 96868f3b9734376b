"""Convergence in a browser: both themes, three widths, and without scripts."""

from __future__ import annotations

from datetime import timedelta
from math import sin

import pytest
from playwright.sync_api import expect

from apps.core import clock
from apps.series.daily_series import SeriesState
from tests.browser.conftest import NARROW, Open, at_widths
from tests.pages.grid import SLUG, Grid
from tests.series_by_hand import HandMade, put_in_place

PAGE = f"/policy/{SLUG}/convergence/"
N_DAYS = 60


@pytest.fixture
def wide_grid(long_grid: Grid, transactional_db: None) -> Grid:
    """Thirty members below biomed, so that a section has several pages."""
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
def test_the_page_fits_and_is_accessible(made: HandMade, wide_grid: Grid, visit: Open, width: int) -> None:
    window = visit(width=width)
    window.sign_in()
    page = window.go(f"{PAGE}?range=90&section=rest&compare=1")
    expect(page.locator("h1")).to_contain_text("3")
    expect(page.locator(".course-plot .fig-live.is-shown")).to_have_count(1, timeout=20_000)
    window.look()
    page = window.go(f"{PAGE}?range=90&unit=points&more=numbers")
    expect(page.locator(".course-plot .fig-live.is-shown")).to_have_count(1, timeout=20_000)
    window.look()
    page = window.go(f"/policy/{SLUG}/n/{wide_grid.uid('/biomed')}/biomed/convergence/?range=90")
    expect(page.locator(".course-plot .fig-live.is-shown")).to_have_count(1, timeout=20_000)
    window.look()


@pytest.mark.deep
def test_further_tiles_come_when_asked_for_and_far_ones_are_emptied(
    made: HandMade, wide_grid: Grid, visit: Open
) -> None:
    window = visit(width=390)
    window.sign_in()
    page = window.go(f"{PAGE}?level={wide_grid.uid('/biomed')}&section=rest")
    tiles, drawn = page.locator(".tile[data-panel]"), page.locator(".tile[data-panel] svg.course")
    shown = tiles.count()
    page.locator(".more-tiles a").first.click()
    expect(tiles).to_have_count(32)
    assert shown < 32
    height = page.evaluate("document.documentElement.scrollHeight")
    tiles.last.scroll_into_view_if_needed()
    expect(tiles.last.locator("svg.course")).to_have_count(1)
    expect(tiles.first.locator("svg.course")).to_have_count(0)
    assert drawn.count() < 16
    assert page.evaluate("document.documentElement.scrollHeight") == height
    assert page.evaluate("document.querySelectorAll('*').length") <= 1_600  # a circle of the fair line for each, too
    tiles.first.scroll_into_view_if_needed()
    expect(tiles.first.locator("svg.course")).to_have_count(1)


@pytest.mark.deep
def test_the_page_is_complete_without_scripts(made: HandMade, wide_grid: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in()
    page = window.go(PAGE)
    page.click("#range-90")
    page.wait_for_url("**/convergence/?range=90")
    expect(page.locator(".course-plot svg.course")).to_be_visible()
    expect(page.locator("#fig-over-time tbody tr").first).to_be_visible()
    page.locator(".tile [data-select]").first.click()
    page.wait_for_url("**entry=**")
    page.click("#custom")
    page.fill("#from", "1 Oct 2026")
    page.fill("#to", "15 Oct 2026")
    page.click("#range-form button[type=submit]")
    page.wait_for_url("**from=1+Oct+2026**")
    expect(page.locator("[data-period]")).to_contain_text("15 Oct 2026")
    page.go_back()
    page.locator("[data-more=numbers] a").first.evaluate("(link) => link.href")
    page.goto(f"{page.url}&more=numbers")
    expect(page.locator("#members tbody tr")).to_have_count(3)
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


def test_in_a_narrow_window_the_menu_of_a_tile_stands_beside_its_balance(
    made: HandMade, wide_grid: Grid, visit: Open
) -> None:
    window = visit(width=NARROW)
    window.sign_in()
    page = window.go(f"{PAGE}?level={wide_grid.uid('/biomed')}&section=rest")
    tile = page.locator(".tile:has(.bal)").first
    balance, dots = tile.locator(".bal").bounding_box(), tile.locator(".dots svg").bounding_box()
    assert balance is not None
    assert dots is not None
    assert dots["x"] >= balance["x"] + balance["width"] + 8
    assert dots["y"] + dots["height"] / 2 == pytest.approx(balance["y"] + balance["height"] / 2, abs=3)
