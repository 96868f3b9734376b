"""The tree by keys: filtered, sorted, two rows selected, one action, a draft; and the view kept for the next time."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NARROW, Open
from tests.pages.grid import SLUG, Grid


@pytest.mark.deep
def test_rows_are_filtered_sorted_selected_and_changed_in_a_draft(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go(f"/policy/{SLUG}/?level=1")
    names = page.locator("#rows a.label")

    with page.expect_navigation():
        page.keyboard.press("o")
    expect(page.locator("#off-target")).to_have_attribute("aria-current", "true")
    with page.expect_navigation():
        page.keyboard.press("1")
    window.follow("th.c-target a")
    expect(page.locator("th.c-target")).to_have_attribute("aria-sort", "descending")
    listed = names.all_text_contents()
    assert len(listed) > 2

    bookmark = page.url

    bar = page.locator("#tree-selection")
    expect(bar).to_be_hidden()
    page.locator("#rows tr[tabindex='0']").focus()
    for _ in range(2):
        page.keyboard.press("ArrowDown")
        page.keyboard.press("x")
    expect(bar.locator("[data-chosen]")).to_have_text("2 selected")
    assert window.axe() == []
    bar.locator("[name=action]").select_option("scale")
    bar.locator("[name=factor]").fill("2")
    window.follow("#tree-selection button")
    expect(page).to_have_url(re.compile(r"/changes/\d+/"))
    expect(page.locator("#edits")).to_contain_text(listed[1])
    expect(page.locator("#edits")).to_contain_text(listed[2])

    window.go(bookmark.removeprefix(window.base))
    expect(names).to_have_text(listed)


def test_numbers_are_named_in_a_narrow_window_and_the_tree_comes_before_how_to_read_it(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go(f"/policy/{SLUG}/")
    window.resize(1024)
    tree, panel = page.locator("table.tg").bounding_box(), page.locator("#panel").bounding_box()
    assert tree is not None
    assert panel is not None
    assert panel["y"] >= tree["y"] + tree["height"]
    tools = [page.locator(each).bounding_box() for each in ("#filter", "#off-target", "#export")]
    assert len({round(box["y"]) for box in tools if box is not None}) == 1, "one line"
    window.resize(NARROW)
    for column, name in ((".c-actual", "Actual"), (".c-target", "Target"), (".c-bal", "Balance")):
        expect(page.locator(f"thead {column}")).to_be_visible()
        expect(page.locator(f"thead {column}")).to_have_text(name)
    page.goto(f"{window.base}/policy/{SLUG}/?entry={grid.uid('/atlas')}")
    window.resize(1024)
    panel = page.locator("#panel").bounding_box()
    assert panel is not None
    assert panel["x"] > 500, "a chosen entry stands beside the tree"
