"""The side panel of an entry's shares: where it opens, what it keeps, and how it refuses."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from playwright.sync_api import Page, expect

from apps.accounts.actor import Actor
from apps.core import clock
from apps.policies.models import Policy
from apps.policies.services import change_shares
from tests.browser.conftest import NARROW, Open, Visit
from tests.pages.grid import PASSWORD, SLUG, Grid

SCROLLED = "[scrollY, document.querySelector('#panel .in-body').scrollTop]"


def opened(window: Visit, grid: Grid, path: str = "/biomed", **query: Any) -> Page:
    asked = "&".join(f"{key}={value}" for key, value in {"panel": "shares", **query}.items())
    return window.go(f"/policy/{SLUG}/n/{grid.uid(path)}/{path.rpartition('/')[2]}/?{asked}")


def head() -> int:
    return Policy.objects.get(slug=SLUG).head_number


def publish_by_hand(grid: Grid, shares: float) -> None:
    actor = Actor(user=grid.admin, via="page")
    uid = grid.uid("/biomed")
    change_shares(policy_slug=SLUG, entry_uid=uid, shares=shares, reason="Theirs", at=clock.now(), actor=actor)


def test_the_button_opens_the_panel_with_the_focus_in_its_field(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go(f"/policy/{SLUG}/n/{grid.uid('/biomed')}/biomed/")
    page.click("#change-shares")
    expect(page.locator("#shares")).to_be_focused()
    assert "panel=shares" in page.url
    page.keyboard.type("25 %")
    expect(page.locator("#becomes")).to_contain_text("25.0\u00a0%")
    page.keyboard.press("Escape")
    expect(page.locator("#panel")).to_be_hidden()
    expect(page.locator("#change-shares")).to_be_focused()
    assert "panel" not in page.url
    page.keyboard.press("e")
    expect(page.locator("#shares")).to_have_value("25 %")
    expect(page.locator("#shares")).to_be_focused()


def test_an_address_opens_the_panel_of_a_child(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = opened(window, grid, "/atlas", focus=grid.uid("/atlas/alice"))
    expect(page.locator("#panel-title")).to_contain_text("alice")
    expect(page.locator("#shares")).to_be_focused()
    expect(page.locator("h1")).to_contain_text("atlas")


def test_effect_on_targets_ranks_and_the_day_stands_beside_the_field(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = opened(window, grid)
    page.fill("#shares", "900")
    own = page.locator("#effect tr.me")
    expect(own).to_contain_text("biomed")
    expect(page.locator("[data-testid=ranks]")).to_contain_text("change rank")
    expect(page.locator("[data-testid=on-target]")).not_to_be_empty()
    page.fill("#shares", "abc")
    expect(page.locator("#shares-hint")).to_have_text("Enter a number (20 or 0.5) or a percentage.")
    expect(page.locator("#shares")).to_have_attribute("aria-invalid", "true")
    expect(own).to_be_visible()  # the last valid value stays


def test_a_refused_change_stays_in_place_with_the_focus_in_the_field(grid: Grid, visit: Open) -> None:
    window = visit(width=NARROW)
    window.sign_in()
    page = opened(window, grid)
    page.evaluate("() => { window.sameDocument = true; }")
    page.fill("#shares", "25 %")
    where, scrolled = page.url, page.evaluate(SCROLLED)
    page.click("#publish")
    expect(page.locator("#reason")).to_be_focused()
    expect(page.locator("#reason-error")).to_have_text("Enter a reason to publish.")
    expect(page.locator("#reason")).to_be_in_viewport()
    assert (page.input_value("#shares"), page.url, page.evaluate(SCROLLED)) == ("25 %", where, scrolled)
    assert page.evaluate("() => window.sameDocument")
    assert head() == 2
    page.fill("#reason", "More")
    page.keyboard.press("Enter")
    expect(page.locator("#problem .success")).to_contain_text("3")
    assert head() == 3


def test_a_double_click_publishes_once(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = opened(window, grid)
    page.fill("#shares", "25 %")
    page.fill("#reason", "Once")
    page.dblclick("#publish")
    expect(page.locator("#problem .success")).to_contain_text("3")
    assert head() == 3


def test_a_publication_is_undone_on_the_page_of_the_entry(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = opened(window, grid)
    page.fill("#shares", "25 %")
    page.fill("#reason", "Too early")
    page.click("#publish")
    message = page.locator("#problem .success")
    message.get_by_role("button", name="Undo").click()
    expect(message).to_have_text("Revision 3 is undone, as revision 4.")
    expect(page.locator("h1")).to_contain_text("biomed")
    node = grid.tree.node(grid.tree.index_of_path("/biomed") or 0)
    assert (head(), node.shares) == (4, 30.0)


def test_a_conflict_stands_on_top_of_the_panel_with_the_focus(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = opened(window, grid)
    page.fill("#shares", "44")
    page.fill("#reason", "Mine")
    publish_by_hand(grid, 25)
    page.click("#publish")
    expect(page.locator("#conflict")).to_be_focused()
    expect(page.locator("#conflict")).to_contain_text("set biomed to 25 shares")
    expect(page.locator("#conflict")).to_contain_text("yours is 44")
    expect(page.locator("#conflict")).to_be_in_viewport()
    page.click("text=Take 25")
    expect(page.locator("#shares")).to_have_value("25")
    expect(page.locator("#conflict")).to_have_count(0)
    assert page.input_value("#reason") == "Mine"
    page.fill("#shares", "44")
    page.click("#publish")
    expect(page.locator("#problem .success")).to_contain_text("4")


def test_after_the_session_ended_the_action_goes_on_with_its_values(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = opened(window, grid)
    page.fill("#shares", "25 %")
    page.fill("#reason", "Kept")
    page.context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
    page.click("#publish")
    expect(page.locator("#again-password")).to_be_focused()
    assert page.input_value("#again-username") == "admin"
    page.fill("#again-password", "wrong")
    page.keyboard.press("Enter")
    expect(page.locator("#again-error")).to_be_visible()
    assert (page.input_value("#shares"), head()) == ("25 %", 2)
    page.fill("#again-password", PASSWORD)
    page.keyboard.press("Enter")
    expect(page.locator("#problem .success")).to_contain_text("3")
    expect(page.locator("#changed li").first).to_contain_text("Kept")
    assert head() == 3


def test_another_person_who_signs_in_sends_nothing_of_the_first(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = opened(window, grid)
    page.fill("#shares", "25 %")
    page.fill("#reason", "Of Eva")
    page.context.clear_cookies()
    page.click("#publish")
    page.fill("#again-username", "alice")
    page.fill("#again-password", PASSWORD)
    page.keyboard.press("Enter")
    expect(page.locator("#sign-in-again")).to_contain_text("Alice Berg")
    page.click("text=Back to the page")
    assert (page.input_value("#shares"), page.input_value("#reason")) == ("25 %", "Of Eva")
    assert head() == 2


def test_without_an_answer_to_the_sign_in_the_form_says_so_and_keeps_its_values(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = opened(window, grid)
    page.fill("#shares", "25 %")
    page.fill("#reason", "Kept")
    page.context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
    page.route("**/sign-in/**", lambda route: route.abort())
    page.click("#publish")
    expect(page.locator(".form-note")).to_be_focused()
    assert (page.input_value("#shares"), page.input_value("#reason")) == ("25 %", "Kept")
    assert head() == 2
    window.complaints[:] = [each for each in window.complaints if "ERR_FAILED" not in each]
