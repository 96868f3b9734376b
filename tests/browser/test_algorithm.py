"""A policy gets another algorithm: shown, compared, previewed, published, computed, and read on the entry's page."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Open, in_windows_of_all
from tests.pages.grid import SLUG, Grid

ALGORITHM = f"/policy/{SLUG}/algorithm/"
COMPARE = f"{ALGORITHM}compare/?with=active&with=slurm-fair-tree&with=slurm-classic&with=flux"


@pytest.mark.deep
def test_fair_tree_is_set_and_its_levels_are_read_without_scripts(grid: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in()
    page = window.go(ALGORITHM)
    assert "Aequus, relative" in page.inner_text("h1")
    page.click("a[href*='algorithm=slurm-fair-tree']")
    assert "LF = S/U" in page.inner_text("#chosen")
    page.select_option("#id_ties", "as-documented")
    page.fill("#id_reason", "Our scheduler ranks this way.")
    page.click("button[name='step'][value='preview']")
    assert page.get_attribute("[data-testid=moved]", "data-value") == "0"  # both agree here, on factors too
    page.click("button[name='step'][value='publish']")
    assert "Slurm: Fair Tree" in page.inner_text("h1")
    assert "as-documented" in page.inner_text("#chosen")
    grid.recompute()
    page = window.go(f"/policy/{SLUG}/n/{grid.uid('/atlas/bob')}/")
    level = page.locator("[data-testid=own-number][data-key=level_fs] [data-testid=balance]")
    assert (level.get_attribute("data-state"), level.inner_text().split()[0]) == ("under", "2")
    assert page.inner_text("#rank").startswith("3")
    page = window.go(f"/policy/{SLUG}/")
    level = page.locator(f"#e-{grid.uid('/atlas/bob')} .c-own [data-testid=balance]")
    assert (level.get_attribute("data-state"), level.inner_text().split()[0]) == ("under", "2")


@in_windows_of_all
def test_pages_of_algorithms_are_accessible_and_fit(grid: Grid, visit: Open, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width)
    window.sign_in()
    for path in (ALGORITHM, f"{ALGORITHM}?algorithm=slurm-fair-tree", COMPARE):
        window.go(path)
        assert window.axe() == [], path
        assert window.overflow() <= 0, path
