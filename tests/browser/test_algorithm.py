"""A policy gets another algorithm: shown, compared, previewed, published, computed, and read on the entry's page."""

from __future__ import annotations

import pytest

from tests.browser.conftest import THEMES, WIDTHS, Open
from tests.dashboard.grid import SLUG, Grid

ALGORITHM = f"/policy/{SLUG}/algorithm/"
COMPARE = f"{ALGORITHM}compare/?with=in-force&with=slurm-fair-tree&with=slurm-classic&with=flux"


def test_fair_tree_is_set_and_its_levels_are_read_without_scripts(grid: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in()
    page = window.go(ALGORITHM)
    assert "Aequus, relative decides who goes first" in page.inner_text("h1")
    page.click("a:has-text('Slurm: Fair Tree')")
    assert "LF = S/U" in page.inner_text("#chosen")
    page.select_option("#id_ties", "as-documented")
    page.fill("#id_reason", "Our scheduler ranks this way.")
    page.click("button:has-text('Preview effect')")
    assert "changes nobody’s rank" in page.inner_text("#effect h3")  # in this tree both agree; the factors do, too
    page.click("button:has-text('Publish change')")
    assert "Slurm: Fair Tree decides who goes first" in page.inner_text("h1")
    assert "as-documented" in page.inner_text("#chosen")
    grid.recompute()
    page = window.go(f"/policy/{SLUG}/n/{grid.uid('/atlas/bob')}/")
    facts = page.inner_text("main")
    assert "level_fs" in facts
    assert "Its part is 2 times what it used" in facts
    assert page.inner_text("#rank").startswith("3")
    page = window.go(f"/policy/{SLUG}/")
    assert "2 under" in page.inner_text(f"#e-{grid.uid('/atlas/bob')} .c-own")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_pages_of_algorithms_are_clean_and_fit(grid: Grid, visit: Open, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width)
    window.sign_in()
    for path in (ALGORITHM, f"{ALGORITHM}?algorithm=slurm-fair-tree", COMPARE):
        window.go(path)
        assert window.axe() == [], path
        assert window.overflow() <= 0, path
