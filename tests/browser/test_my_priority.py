"""My priority in a real browser: both themes, three widths, by keyboard, without scripts; the focus stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page

from apps.accounts.models import Account, User
from tests.browser.conftest import Open, Visit, at_widths, come
from tests.browser.hands import BY_HAND, HANDS
from tests.pages.grid import SLUG, Grid
from tests.pages.my_priority.test_my_priority import second_account

PAGE = "/me/priority/"
OWN_USAGE = "[data-testid=own-usage]"
SHOTS = os.environ.get("FAIRSHARE_SHOTS", "")


def open_more(page: Page, *anchors: str) -> None:
    """Open "More" and the cards of these names in it, which come then."""
    for opened in ("#more", *(f"#more li > details:has(#later-{anchor})" for anchor in anchors)):
        page.locator(f"{opened} > summary").click()


def shoot(window: Visit, name: str) -> None:
    """For looking at: FAIRSHARE_SHOTS names a folder."""
    if SHOTS:
        Path(SHOTS).mkdir(parents=True, exist_ok=True)
        window.page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)


@pytest.mark.deep
@at_widths
def test_the_page_is_accessible_and_fits_in_every_state(grid: Grid, visit: Open, width: int) -> None:
    second_account(grid, "bob", "atlas", 1)
    window = visit(width=width)
    window.sign_in("alice")
    page = window.go(f"{PAGE}?account=alice&namespace=cluster-a&other=/biomed/carol&who=carol")
    open_more(page, "why", "back", "details", "accounts")
    come(page, "#later-why", "#later-back", "#later-details", "#later-accounts")
    assert page.locator("#why .turns li").count() >= 1
    window.look()
    shoot(window, f"me-{width}")
    page = window.go(f"{PAGE}?at=2&policy={SLUG}&account=alice")
    open_more(page, "details")
    come(page, "#later-details")
    window.look()
    shoot(window, f"me-back-{width}")
    page = window.go(f"{PAGE}?at=2001-01-01T00:00:00Z")
    assert page.get_attribute("#verdict", "data-key") == "not_kept"
    window.look()
    shoot(window, f"me-none-{width}")


@pytest.mark.deep
@pytest.mark.parametrize("hand_name", BY_HAND)
def test_another_user_is_found_and_compared_and_focus_stays(grid: Grid, visit: Open, hand_name: str) -> None:
    window, hand = visit(), HANDS[hand_name]
    window.sign_in("alice")
    page = window.go(PAGE)
    open_more(page, "why")
    come(page, "#later-why")
    hand.write(page, "#why-who", "carol")
    page.keyboard.press("Enter")
    page.wait_for_selector("#why .who a:has-text('carol')")
    assert page.evaluate("document.activeElement.id") == "why-who"
    hand.press(page, "#why-1")
    page.wait_for_selector("#why .contrast")
    assert page.evaluate("document.activeElement.id") == "why-1"
    for state in ("over", "under"):
        assert page.locator(f"#why .contrast .bal.{state}").count() == 1


@pytest.mark.deep
def test_the_page_works_without_scripts(grid: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in("alice")
    page = window.go(PAGE)
    page.click("#more > summary")
    page.click("#more details:has(#why) summary")
    page.click("#why noscript a")
    page.fill("#why-who", "carol")
    page.click("#why button")
    page.click("#why-1")
    assert page.locator("#why .contrast .turns li").count() >= 1
    window.look()
    page.click(".page-head a")
    page.click("#more > summary")
    page.click("#more details:has(#back) summary")
    page.click("#back noscript a")
    page.fill("#back-day", str(page.get_attribute("#back-day", "min")))
    page.click("form:has(#back-day) button")
    assert page.is_visible(".timebar")
    page = window.go(f"{PAGE}?day=2001-01-01T12:00")
    assert page.get_attribute("#verdict", "data-key") == "not_kept"
    page.click("section[aria-labelledby=verdict] a")
    assert str(page.get_attribute("#verdict", "data-rank")).isdigit()
    window.look()


@pytest.mark.deep
@at_widths
def test_a_user_without_an_entry_sees_what_to_do(grid: Grid, visit: Open, width: int) -> None:
    User.objects.create_user("zoe")
    window = visit(width=width)
    window.sign_in("zoe")
    page = window.go(PAGE)
    assert page.get_attribute("#verdict", "data-key") == "no_account"
    window.look()
    shoot(window, f"me-no-account-{width}")


def test_reason_and_date_fit_a_phone(grid: Grid, visit: Open) -> None:
    Account.objects.filter(user_name="bob").update(person=grid.alice)
    window = visit(width=390)
    window.sign_in("alice")
    page = window.go(PAGE)
    low = page.evaluate("""() => Math.max(...[...document.querySelectorAll(".qa dd")].map(
      (each) => each.getBoundingClientRect().bottom))""")
    assert low <= page.evaluate("() => innerHeight")
    window.look()


# Heights and places that changed in view without an action of the reader: what, and how much of the window.
WATCH_SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => { for (const entry of list.getEntries()) {
  window.shifts.push([entry.value, ...entry.sources.map((each) => each.node?.id || each.node?.className || "")]);
} }).observe({ type: "layout-shift", buffered: true });
"""
MOST_SHIFT = 0.02


@pytest.mark.product
@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_jumps_when_cards_come(grid: Grid, visit: Open, width: int) -> None:
    second_account(grid, "bob", "atlas", 1)
    window = visit(width=width)
    window.sign_in("alice")
    page = window.go(PAGE)
    page.evaluate("document.fonts.ready")
    page.add_init_script(WATCH_SHIFTS)  # with the font in the cache, which is the browser's matter
    window.go(PAGE)
    for card in ("trend", "waiting-jobs", "submit", "forecast"):
        page.wait_for_selector(f"#later-{card}[data-come]")
    shifts = page.evaluate("window.shifts")
    assert sum(shift for shift, *_nodes in shifts) < MOST_SHIFT, shifts
    window.look()


@pytest.mark.deep
@pytest.mark.product
def test_the_page_is_one_screen_and_a_half(grid: Grid, visit: Open) -> None:
    """It was five: secondary cards are behind one closed line."""
    second_account(grid, "bob", "atlas", 1)
    heights = {}
    for width in (1440, 390):
        window = visit(width=width)
        window.sign_in("alice")
        page = window.go(PAGE)
        for card in ("trend", "waiting-jobs", "submit", "forecast"):
            page.wait_for_selector(f"#later-{card}[data-come]")
        heights[width] = page.evaluate("document.documentElement.scrollHeight")
        window.look()
    assert heights[1440] <= 1_080
    assert heights[390] <= 2_300


def test_choosing_another_account_opens_its_page(grid: Grid, visit: Open) -> None:
    second_account(grid, "bob", "atlas", 1)
    window = visit()
    window.sign_in("alice")
    page = window.go(PAGE)
    page.select_option("[data-testid=accounts]", label="atlas / alice")
    page.wait_for_url("**/me/priority/?account=alice*")
    assert page.locator("[data-testid=accounts] option:checked").inner_text() == "atlas / alice"
    window.look()
