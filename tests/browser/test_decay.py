"""A policy takes its scheduler's decay function: shown, previewed, published, and read on the tree's page."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Open, in_windows_of_all
from tests.pages.grid import SLUG, Grid

DECAY = f"/policy/{SLUG}/decay/"


@pytest.mark.deep
def test_a_decay_function_is_set_without_scripts(grid: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in()
    page = window.go(DECAY)
    assert "7\u00a0d" in page.inner_text("h1")
    page.click("a[href^='?aging=gridengine']")
    assert "60 · ln 2" in page.inner_text("#chosen")
    page.fill("#id_halftime_h", "48")
    page.fill("#id_reason", "As the cluster does.")
    page.click("button[name='step'][value='preview']")
    assert "70.7" in page.inner_text("#left")  # after 24 of 48 hours
    page.click("button[name='step'][value='publish']")
    assert "Grid Engine" in page.inner_text("h1")
    assert "48\u00a0h" in page.inner_text("h1")


@in_windows_of_all
def test_the_page_of_the_window_is_accessible_and_fits(grid: Grid, visit: Open, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width)
    window.sign_in()
    for path in (DECAY, f"{DECAY}?aging=pbs"):
        window.go(path)
        assert window.axe() == [], path
        assert window.overflow() <= 0, path
