"""Operators and resolution in a browser: every figure is drawn, a control is the address, and the form follows it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from apps.contrib.lab.operators.selectors import FIGURES
from tests.browser.conftest import Open, in_windows
from tests.pages.grid import SLUG, Grid

PAGE = f"/policy/{SLUG}/operators/"
SHOTS = os.environ.get("FAIRSHARE_SHOTS", "")


def draw_all(page: Page) -> None:
    for name in FIGURES:
        page.locator(f"#fig-{name}").scroll_into_view_if_needed()
        page.wait_for_selector(f"#fig-{name}[data-drawn]")
        expect(page.locator(f"#fig-{name} .fig-state")).to_have_count(0)


@pytest.mark.deep
@in_windows
def test_every_figure_is_drawn_and_the_page_is_accessible(grid: Grid, visit: Open, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width)
    window.sign_in()
    page = window.go(PAGE)
    draw_all(page)
    if SHOTS:
        for name in FIGURES:
            page.locator(f"#fig-{name}").screenshot(path=Path(SHOTS) / f"operators-{name}-{theme}-{width}.png")
        page.screenshot(path=Path(SHOTS) / f"operators-{theme}-{width}.png", full_page=True)
    window.look()


@pytest.mark.deep
def test_a_figure_control_is_in_the_address_and_in_the_form(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go(f"{PAGE}?nodes=50")
    page.locator("#fig-profiles").scroll_into_view_if_needed()
    page.wait_for_selector("#fig-profiles[data-drawn='?nodes=50']")
    shown = page.inner_text("#fig-profiles .fig-say")
    page.click("#fig-profiles [data-choice='operator-absolute']")
    page.wait_for_selector("#fig-profiles[data-drawn*='operator=absolute']")
    assert "nodes=50" in page.url
    assert "operator=absolute" in page.url
    assert page.inner_text("#fig-profiles .fig-say") != shown
    assert page.input_value("#id_operator") == "absolute"
    page.locator("#fig-job-size").scroll_into_view_if_needed()
    page.wait_for_selector("#fig-job-size[data-drawn]")
    page.click("#fig-job-size [data-choice='region-over']")
    page.wait_for_selector("#fig-job-size[data-drawn*='region=over']")
    page.fill("#id_job_h", "500")
    with page.expect_navigation():
        page.click("form[data-operators] button[type='submit']")
    for part in ("operator=absolute", "region=over", "job_h=500", "nodes=50"):
        assert part in page.url
    page.go_back()
    page.go_back()
    assert "region=over" not in page.url


@pytest.mark.deep
def test_without_scripts_every_figure_and_number_is_shown(grid: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in()
    page = window.go(f"{PAGE}?operator=absolute&target=0.1")
    for name in FIGURES:
        expect(page.locator(f"#fig-{name} tbody tr").first).to_be_visible()
    page.click("#fig-profiles [data-choice='operator-slurm']")
    assert page.input_value("#id_operator") == "slurm"
