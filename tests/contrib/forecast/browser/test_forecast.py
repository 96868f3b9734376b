"""Looking ahead on my priority: with and without scripts, in both themes, from a phone to a wide screen."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from apps.accounts.actor import COMMAND
from apps.core import clock
from apps.policies.services import change_settings
from tests.browser.conftest import Open, at_widths, come
from tests.browser.test_my_priority import open_more
from tests.pages.grid import SLUG, Grid, send_mixed_days


@pytest.fixture
def weeks(grid: Grid) -> Grid:
    """Twenty days before the one of the grid, more on some than on others."""
    send_mixed_days(grid)
    return grid


@pytest.mark.deep
@at_widths
def test_both_cards_are_accessible_and_fit_while_used(weeks: Grid, visit: Open, width: int) -> None:
    window = visit(width=width)
    window.page.set_default_timeout(30_000)
    window.sign_in("alice")
    query = f"?forecast_level={weeks.uid('/atlas')}"
    page = window.go(f"/me/priority/{query}")
    come(page, "#later-forecast")
    page.locator("#fig-forecast").scroll_into_view_if_needed()  # it is drawn when it comes near
    page.wait_for_selector(f"#fig-forecast[data-drawn='{query}']")
    page.click("#fig-forecast .fig-more summary")
    open_more(page, "forecast-levels")
    come(page, "#later-forecast-levels")
    assert page.locator("#forecast-levels .levels li").count() == 2
    level, shown = page.inner_text("#fig-forecast .fig-title"), page.inner_text("#fig-forecast .fig-say")
    assert "atlas" in level
    page.fill("#forecast-share", "5")
    page.click("#forecast-show")
    page.wait_for_selector("#fig-forecast[data-drawn*='share=5']")
    assert page.inner_text("#fig-forecast .fig-title") == level, "the rest of the state stays"
    assert page.inner_text("#fig-forecast .fig-say") != shown
    window.look()


@pytest.mark.deep
def test_without_scripts_the_forms_reload_the_page_with_their_results(weeks: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.page.set_default_timeout(30_000)
    window.sign_in("alice")
    page = window.go("/me/priority/")
    window.follow("#forecast noscript a")
    shown = page.inner_text("#fig-forecast .fig-say")
    window.follow(".page-head a")
    page.click("#more > summary")
    page.click("#more details:has(#forecast-levels) summary")
    window.follow("#forecast-levels noscript a")
    page.fill("#forecast-share", "much")
    window.follow("#forecast-show")
    assert page.inner_text("#forecast-share-hint") == "Enter percent from 0 to 100."
    assert page.input_value("#forecast-share") == "much"
    page.fill("#forecast-share", "5")
    window.follow("#forecast-show")
    assert page.is_visible("[data-testid=scenario]")
    assert page.inner_text("#fig-forecast .fig-say") != shown


@pytest.mark.deep
@at_widths
def test_the_forecast_factor_is_drawn_if_one_number_decides(weeks: Grid, visit: Open, width: int) -> None:
    settings = {"algorithm": {"name": "slurm-depth-oblivious"}}
    change_settings(policy_slug=SLUG, settings=settings, reason="x", at=clock.now(), actor=COMMAND)
    weeks.recompute()
    window = visit(width=width)
    window.page.set_default_timeout(30_000)
    window.sign_in("alice")
    page = window.go("/me/priority/")
    open_more(page, "fig-factor")
    come(page, "#later-fig-factor")
    expect(page.locator("#fig-factor .fig-say")).to_contain_text("28")
    page.locator("#fig-factor").scroll_into_view_if_needed()
    page.wait_for_selector("#fig-factor[data-drawn='']")
    window.look()
