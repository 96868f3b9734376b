"""Keys, lazily loaded children and the filter of the tree page; focus never returns to the body."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from apps.priorities.selectors.tree import WINDOW
from tests.browser.conftest import Open
from tests.pages.grid import SLUG, Grid

ROW = "(() => document.activeElement.closest('tr')?.querySelector('.label')?.textContent ?? 'none')()"
KIND = "(() => document.activeElement.tagName)()"


@pytest.fixture
def large(large_grid: Grid, transactional_db: None) -> Grid:
    """biomed and cms have 252 people each: a fresh page has no room for them."""
    return large_grid


@pytest.fixture
def tree(large: Grid, visit: Open) -> Page:
    window = visit()
    window.sign_in()
    return window.go(f"/policy/{SLUG}/?level=1&open={large.uid('/atlas')}")


def test_arrow_keys_move_between_rows_and_then_cells(tree: Page) -> None:
    tree.locator("tr[tabindex='0']").focus()
    walked = []
    for key in ("ArrowDown", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowLeft", "ArrowLeft", "End", "Home"):
        tree.keyboard.press(key)
        walked.append((tree.evaluate(ROW), tree.evaluate(KIND)))
    assert walked == [
        ("atlas", "TR"),
        ("atlas", "TH"),
        ("alice", "TH"),
        ("alice", "TR"),
        ("atlas", "TR"),
        ("atlas", "TR"),
        ("cms", "TR"),
        ("SweGrid", "TR"),
    ]
    assert tree.locator("tbody tr[tabindex='0']").count() == 1


def test_children_are_loaded_on_demand_a_window_at_a_time(tree: Page) -> None:
    cms = tree.locator("tr", has=tree.get_by_role("link", name="cms", exact=True))
    expect(cms).to_have_attribute("aria-expanded", "false")
    rows = tree.locator("tbody tr[data-uid]")  # cells of distant rows are removed
    n_before = rows.count()
    cms.focus()
    tree.keyboard.press("ArrowRight")
    expect(rows).to_have_count(n_before + WINDOW)
    assert tree.evaluate(ROW) == "cms"
    expect(cms).to_have_attribute("aria-expanded", "true")
    tree.locator("tr.more").last.focus()
    tree.keyboard.press("Enter")
    expect(rows).to_have_count(n_before + 2 * WINDOW)
    assert tree.evaluate(KIND) == "TR", "focus is on the first of the new rows"
    assert "open=" in tree.url
    tree.reload()
    expect(cms).to_have_attribute("aria-expanded", "true")


def test_rows_that_fail_to_load_can_be_retried(tree: Page) -> None:
    tree.route("**/_rows*", lambda route: route.fulfill(status=404, body=""))
    cms = tree.locator("tr", has=tree.get_by_role("link", name="cms", exact=True))
    cms.focus()
    tree.keyboard.press("ArrowRight")
    retry = tree.locator("tr.noterow button")
    expect(retry).to_be_visible()
    expect(tree.get_by_role("link", name="alice", exact=True)).to_be_visible()
    tree.unroute("**/_rows*")
    waiting: list[Route] = []
    tree.route("**/_rows*", lambda route: waiting.append(route))
    retry.click()
    expect(tree.locator("tr.noterow")).to_be_focused()
    expect(tree.locator("tr.noterow")).to_have_attribute("aria-busy", "true")
    waiting[0].continue_()
    expect(tree.locator("tbody tr:has(a:text-matches('^(dave|erin|member)'))")).to_have_count(WINDOW)
    assert tree.evaluate(KIND) == "TR"


@pytest.mark.deep
def test_search_filters_the_tree_and_keeps_the_focus(tree: Page) -> None:
    tree.locator("#filter").press_sequentially("member0007")
    expect(tree.locator("#rows")).to_have_attribute("data-matches", "1")
    expect(tree.locator("#status")).to_have_text(re.compile(r"^\D*1\D*$"))
    assert tree.evaluate("document.activeElement.id") == "filter"
    assert "q=member0007" in tree.url
    expect(tree.locator("tbody tr")).to_have_count(3)


@pytest.mark.deep
def test_a_selected_row_shows_its_numbers_next_to_the_tree(tree: Page) -> None:
    row = tree.locator("tr", has=tree.get_by_role("link", name="biomed", exact=True))
    row.locator("td").nth(1).click()
    expect(tree.locator("#panel h2")).to_have_text("biomed")
    expect(row).to_have_attribute("aria-selected", "true")
    assert tree.evaluate(ROW) == "biomed"
    tree.keyboard.press("Enter")
    expect(tree.locator("h1")).to_contain_text("biomed")
