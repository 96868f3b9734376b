"""The grid view's diagram of core-hours from sites to entries, in a wide and in a narrow window."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW, WIDE, Open
from tests.every_page.test_every_page import sign_in
from tests.rights_world import World

GRID = "/federation/grid/?policy=grid&entry=/physics"
IS_DRAWN_TO_SIZE = """() => {
  const plot = document.querySelector("#fig-flow .fig-plot");
  return plot.querySelector(".fig-live > svg")?.getAttribute("width") === String(plot.clientWidth);
}"""
# Each node's text, and whether its bar and label are inside the picture.
NODES = """() => [...document.querySelectorAll("#fig-flow .fig-live text")].map((words) => {
  const plot = document.querySelector("#fig-flow .fig-plot").getBoundingClientRect();
  const boxes = [words.previousElementSibling, words].map((each) => each.getBoundingClientRect());
  return [words.textContent.split(/\\s/)[0], boxes.every((box) => box.left >= plot.left && box.right <= plot.right)];
})"""
ALL = {"local": True, "alice": True, "bob": True}


def nodes(page: Page) -> dict[str, bool]:
    page.wait_for_function(IS_DRAWN_TO_SIZE)
    return dict(page.evaluate(NODES))


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_bars_and_names_are_in_the_picture_at_once_also_after_a_resize(
    live_server: Any, world: World, visit: Open, width: int
) -> None:
    window = visit(width=width)
    sign_in(window, world, "admin")
    page = window.go(GRID)
    page.locator("#fig-flow").scroll_into_view_if_needed()
    assert nodes(page) == ALL
    window.resize(NARROW if width == WIDE else WIDE)
    assert nodes(page) == ALL


def test_bands_are_read_by_keys_and_pointer(live_server: Any, world: World, visit: Open) -> None:
    window = visit()
    sign_in(window, world, "admin")
    page = window.go(GRID)
    plot, tip = page.locator("#fig-flow .fig-plot"), page.locator("#fig-flow .fig-tip")
    plot.scroll_into_view_if_needed()
    nodes(page)
    plot.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#status")).to_contain_text("local →")
    expect(tip).to_contain_text("core-hours")
    expect(page.locator("#fig-flow .cursor")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page.locator("#fig-flow .band").first.hover()
    expect(tip).to_contain_text("local →")
