"""The navigation in a browser: rows that never scroll, tabs below the top bar, and the menu of narrow pages."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.grants import make_grant
from tests.pages.grid import SLUG, Grid

HEIGHTS = "() => [document.documentElement.scrollHeight, innerHeight, nav.scrollHeight, nav.clientHeight]"


@pytest.mark.product
def test_ten_rows_and_the_whole_foot_fit_without_scrolling(grid: Grid, visit: Open) -> None:
    make_grant(grid.admin, grid.uid("/atlas"))
    window = visit(width=1440)
    window.sign_in("admin")
    page = window.go("/schedulers/")
    expect(page.locator("#nav > ul:not([hidden]) > li")).to_have_count(10)
    page_height, window_height, rows, room = page.evaluate(HEIGHTS)
    assert rows <= room, "the navigation doesn't scroll"
    assert page_height <= window_height, "nor does a page without contents"
    foot = page.locator("#nav > footer")
    expect(foot).to_contain_text("UTC")
    box = foot.bounding_box()
    assert box
    assert box["y"] + box["height"] <= window_height


def test_the_skip_link_leads_past_navigation_and_tabs(grid: Grid, visit: Open) -> None:
    window = visit(is_kept=False)
    window.sign_in("admin")
    page = window.go(f"/policy/{SLUG}/decay/")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


@pytest.mark.product
def test_keys_open_pages_that_are_no_rows(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in("admin")
    page = window.go("/")
    for key, address in (
        ("r", f"/policy/{SLUG}/history/"),
        ("h", "/audit/"),
        ("n", "/notices/"),
        ("t", f"/policy/{SLUG}/"),
    ):
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_url(f"**{address}")


def test_a_narrow_page_has_its_places_in_a_menu_and_its_tab_in_view(grid: Grid, visit: Open) -> None:
    window = visit(width=390)
    window.sign_in("admin")
    page = window.go("/audit/")
    current = page.locator(".tabs.place [aria-current=page]")
    expect(current).to_have_text("Audit")
    expect(current).to_be_in_viewport()
    assert window.overflow() <= 0
    page.get_by_role("button", name="Menu").click()
    expect(page.locator("#nav [aria-current]:visible")).to_have_text("Settings")
    rows = page.locator("#nav > ul:not([hidden]) > li > a")
    assert all(box and box["height"] >= 44 for box in (row.bounding_box() for row in rows.all()))
    page.locator("#nav").get_by_role("link", name="Convergence").click()
    page.wait_for_url(f"**/policy/{SLUG}/convergence/")
