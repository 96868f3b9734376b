"""A policy gets another algorithm: shown, compared, previewed, published, computed, and read on the entry's page."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Open, in_windows_of_all
from tests.pages.grid import SLUG, Grid

ALGORITHM = f"/policy/{SLUG}/algorithm/"
OTHER = f"{ALGORITHM}?algorithm=aequus&operator=absolute"


@pytest.mark.deep
def test_fair_tree_is_set_and_its_levels_are_read_without_scripts(grid: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in()
    page = window.go(ALGORITHM)
    assert "Aequus, relative" in page.inner_text("h1")
    page.click("a[href*='algorithm=slurm-fair-tree']")
    page.click("#chosen details:has(.described) > summary")
    assert "LF = S/U" in page.inner_text("#chosen")
    page.click("#choose details > summary")
    page.select_option("#id_ties", "as-documented")
    page.fill("#id_reason", "Our scheduler ranks this way.")
    page.click("button[name='step'][value='preview']")
    assert page.get_attribute("[data-testid=moved]", "data-value") == "0"  # both agree here, on factors too
    page.click("button[name='step'][value='publish']")
    assert "Slurm: Fair Tree" in page.inner_text("h1")
    page.click("#chosen details:has(.described) > summary")
    assert "as-documented" in page.inner_text("#chosen .described")
    grid.recompute()
    page = window.go(f"/policy/{SLUG}/n/{grid.uid('/atlas/bob')}/")
    level = page.locator("[data-testid=own-number][data-key=level_fs] [data-testid=balance]")
    assert (level.get_attribute("data-state"), level.inner_text().split()[0]) == ("under", "2")
    assert page.inner_text("#rank").startswith("3")
    page = window.go(f"/policy/{SLUG}/")
    level = page.locator(f"#e-{grid.uid('/atlas/bob')} .c-own [data-testid=balance]")
    assert (level.get_attribute("data-state"), level.inner_text().split()[0]) == ("under", "2")


@pytest.mark.deep
def test_who_would_move_follows_the_choice_and_is_published(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go(ALGORITHM)
    page.click(".operators-pick label:has-text('absolute')")
    page.wait_for_selector("#effect [data-testid=moved]")
    assert page.locator("#effect button[value=publish]").is_visible()
    page.click("#effect button[value=publish]")
    page.wait_for_selector("#id_reason[aria-invalid=true]")
    page.fill("#id_reason", "As the neighbours.")
    page.click("#effect button[value=publish]")
    page.wait_for_selector("h1:has-text('absolute')")


@in_windows_of_all
def test_pages_of_algorithms_are_accessible_and_fit(grid: Grid, visit: Open, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width)
    window.sign_in()
    for path in (ALGORITHM, f"{ALGORITHM}?algorithm=slurm-fair-tree", OTHER):
        window.go(path)
        assert window.axe() == [], path
        assert window.overflow() <= 0, path
