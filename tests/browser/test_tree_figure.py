"""The picture of the tree in a browser: hand-over, drill-down by click and keys, the path, the address, downloads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open, Visit, in_windows
from tests.pages.grid import SLUG, Grid

ICICLE = f"/policy/{SLUG}/icicle/"
FIGURE = "#fig-tree"
PATH = f"{FIGURE} .fig-controls .path a"
# The box of the field with this name, in the window.
BOX = """name => {
  let shape = [...document.querySelectorAll(".fig-live text")].find((words) => words.textContent.includes(name));
  while (shape && !shape.dataset.at) shape = shape.previousElementSibling;
  return shape?.getBoundingClientRect().toJSON() ?? null;
}"""


@pytest.fixture
def wide_grid(long_grid: Grid, transactional_db: None) -> Grid:
    """Thirty members below biomed."""
    return long_grid


def drawn(page: Page, query: str = "") -> None:
    """Waits until the figure shows what this query of the page asks for."""
    page.wait_for_selector(f"{FIGURE}[data-drawn='{query}']")


def opened(window: Visit, query: str = "") -> Page:
    page = window.go(f"{ICICLE}{query}")
    drawn(page, query)
    return page


def click_field(page: Page, name: str) -> None:
    box = page.evaluate(BOX, name)
    assert box, name
    above_children = min(box["height"] / 2, 8)  # of a treemap
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + above_children)


@pytest.mark.deep
@in_windows
def test_both_figures_fit_each_window(wide_grid: Grid, visit: Open, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width)
    window.sign_in()
    for query in ("", "?kind=icicle&color=share"):
        page = opened(window, query)
        expect(page.locator(f"{FIGURE} .fig-wait")).to_have_count(0)
        assert page.evaluate(BOX, "atlas")
        window.look()
    assert page.locator(f"{FIGURE} .fig-live text").count() > 3


@pytest.mark.deep
def test_a_field_opens_by_click_and_closes_by_back(wide_grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = opened(window, "?kind=icicle")
    atlas, alice = (str(wide_grid.uid(path)) for path in ("/atlas", "/atlas/alice"))
    click_field(page, "atlas")
    drawn(page, f"?kind=icicle&entry={atlas}")
    expect(page.locator(PATH)).to_have_text(["SweGrid", "atlas"])
    expect(page.locator("aside.panel h2")).to_have_text("atlas")
    page.click(f"{FIGURE} .fig-more summary")
    expect(page.locator(f"{FIGURE} tbody tr")).to_have_count(3)
    click_field(page, "alice")
    drawn(page, f"?kind=icicle&entry={alice}")
    expect(page.locator(f"{FIGURE} .fig-outlines .chosen")).to_have_count(1)
    expect(page.locator("aside.panel h2")).to_have_text("alice")
    page.go_back()
    drawn(page, f"?kind=icicle&entry={atlas}")
    expect(page.locator("aside.panel h2")).to_have_text("atlas")
    page.click(f"{FIGURE} [data-choice='kind-treemap']")
    drawn(page, f"?entry={atlas}")
    page.locator(PATH).first.click()
    drawn(page)
    expect(page.locator("aside.panel dl dt")).to_have_count(4)
    page.locator(f"{FIGURE} tbody a", has_text="/biomed").first.click()
    drawn(page, f"?entry={wide_grid.uid('/biomed')}")
    window.look()


def test_the_tree_is_navigated_by_keyboard(wide_grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = opened(window)
    plot, status = page.locator(f"{FIGURE} .fig-plot"), page.locator("#status")
    plot.focus()
    page.keyboard.press("ArrowRight")
    expect(status).to_have_text(re.compile("^SweGrid"))
    page.keyboard.press("ArrowRight")
    expect(status).to_have_text(re.compile("^atlas.*60.0"))
    page.keyboard.press("ArrowDown")
    expect(status).to_have_text(re.compile("^biomed"))
    expect(page.locator(f"{FIGURE} .fig-tip")).to_contain_text("biomed")
    expect(page.locator(f"{FIGURE} .fig-outlines .cursor")).to_have_count(1)
    page.keyboard.press("Enter")
    drawn(page, f"?entry={wide_grid.uid('/biomed')}")
    expect(plot).to_be_focused()
    page.keyboard.press("Backspace")
    drawn(page)
    expect(page.locator(PATH)).to_have_text(["SweGrid"])


def test_the_pointer_reads_a_field_of_a_picture_without_plotly(wide_grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    asked: list[str] = []
    window.page.on("request", lambda request: asked.append(request.url))
    page = opened(window)
    assert asked
    assert not [url for url in asked if re.search(r"plotly.*\.js", url)]
    box, tip = page.evaluate(BOX, "atlas"), page.locator(f"{FIGURE} .fig-tip")
    page.mouse.move(box["x"] + 8, box["y"] + 8)
    expect(tip).to_contain_text("atlas: ")
    expect(tip).to_contain_text("60.0 % of SweGrid")
    page.mouse.move(box["x"] + 8, 5)
    expect(tip).to_be_hidden()


@pytest.mark.deep
def test_combined_entries_link_to_the_list_of_the_parent(wide_grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = opened(window, "?kind=icicle")
    with page.expect_navigation(url=re.compile(f"/n/{wide_grid.uid('/biomed')}/")):
        click_field(page, "32")


@pytest.mark.deep
def test_a_picture_of_a_tree_is_saved_as_svg_and_csv(wide_grid: Grid, visit: Open, tmp_path: Path) -> None:
    window = visit()
    window.sign_in()
    page = opened(window)
    page.click(f"{FIGURE} header button")
    with page.expect_download() as waiting:
        page.click(f"{FIGURE} [data-download='svg']")
    waiting.value.save_as(tmp_path / "tree.svg")
    picture = (tmp_path / "tree.svg").read_text(encoding="utf-8")
    assert "atlas" in picture
    assert "▼" in picture
    page.click(f"{FIGURE} header button")
    with page.expect_download() as waiting:
        page.click(f"{FIGURE} [data-figure-csv]")
    waiting.value.save_as(tmp_path / "tree.csv")
    assert '"/atlas"' in (tmp_path / "tree.csv").read_text(encoding="utf-8")


@pytest.mark.deep
def test_an_invalid_query_has_a_link_back(wide_grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go(f"{ICICLE}?kind=pie")
    expect(page.locator(f"{FIGURE} .fig-state")).to_contain_text("pie")
    page.locator(f"{FIGURE}[data-state='error'] .fig-state").wait_for()
    window.look()
    window.follow(f"{FIGURE} .fig-state a")
    drawn(page)
