"""From my priority to the arithmetic of a job, with and without scripts, at both widths and in both themes."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Open, at_widths
from tests.pages.grid import SLUG, Grid

CHARGES = f"/policy/{SLUG}/charges/"


@pytest.mark.deep
def test_my_priority_links_to_the_calculation_of_a_job_without_scripts(grid: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in("alice")
    page = window.go("/me/priority/")
    page.click("#more > summary")
    page.click("#more details:has(#charges) summary")
    page.click("#charges noscript a")
    page.click(f"main a[href='{CHARGES}']")
    page.click("#charge_rows tbody a")
    assert page.is_visible("#what")
    assert page.is_visible("[data-testid=no-class-rule]")


@pytest.mark.deep
@at_widths
def test_a_job_is_found_by_name_and_its_page_is_accessible_and_fits(grid: Grid, visit: Open, width: int) -> None:
    window = visit(width=width)
    window.sign_in()
    page = window.go(CHARGES)
    assert page.get_attribute("#charge_rows [data-testid=no-charges]", "data-state") == "own"
    window.look()
    page.fill("#charge-account", "carol")
    page.click(".charge-search button[type=submit]")
    page.wait_for_selector("#charge_rows tbody a")
    window.look()
    page.click("#charge_rows tbody a")
    page.wait_for_selector("#verdict")
    window.look()
