"""Figures of the allocations page in a browser: split, hidden series, another year, keys, and without scripts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open, in_windows
from tests.contrib.allocations.pages.test_allocations import PAGE, allocate
from tests.pages.grid import SLUG, Grid

USAGE, LEFT = "#fig-usage", "#fig-burn-down"


@pytest.mark.deep
@in_windows
def test_split_and_hidden_series_are_kept_in_the_address_across_years(
    grid: Grid, visit: Open, theme: str, width: int
) -> None:
    year = grid.at.year
    allocate(grid, "/atlas", 20_000, starts_on=grid.at.date().replace(month=1, day=1), ends_on=grid.at.date())
    window = visit(theme=theme, width=width)
    window.sign_in()
    page = window.go(PAGE)
    for figure in (USAGE, LEFT):
        page.locator(figure).scroll_into_view_if_needed()
        page.wait_for_selector(f"{figure}[data-drawn='']")
    expect(page.locator(f"{LEFT} .fig-say")).to_contain_text("atlas")
    page.focus(f"{USAGE} .fig-plot")
    page.keyboard.press("End")
    expect(page.locator("#status")).to_contain_text("core-hours")
    page.click(f"{USAGE} [data-choice^='usage_hide-']")
    page.wait_for_selector(f"{USAGE}[data-drawn^='?usage_hide=']")
    expect(page.locator(f"{USAGE} .chip[data-shown=false]")).to_have_count(1)
    page.click(f"{USAGE} [data-choice='by-site']")
    page.wait_for_selector(f"{USAGE}[data-drawn='?usage_by=site']")
    window.look()
    page.click(f"#year-{year - 1}")
    page.locator(USAGE).scroll_into_view_if_needed()
    expect(page.locator(f"{USAGE} .fig-state")).to_contain_text("No visible core-hours")
    assert "usage_by=site" in page.url
    assert page.get_attribute(f"{USAGE} [data-choice='by-site']", "aria-current") == "true"


@pytest.mark.deep
def test_without_scripts_sentence_and_table_are_shown(grid: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in()
    page = window.go(PAGE)
    shown = page.inner_text(f"{USAGE} .fig-say")
    assert re.search(r"\d", shown)
    expect(page.locator(f"{USAGE} tbody tr").first).to_be_visible()
    page.click(f"{USAGE} [data-choice='by-site']")
    assert "usage_by=site" in page.url
    assert f"/policy/{SLUG}/" in page.url
