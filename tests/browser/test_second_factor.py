"""The second step of sign-in in a real browser: set up, used, with the keyboard alone and without script."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings
from playwright.sync_api import Page, expect

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.accounts.sign_in.second_factor import add_second_factor, code_at, new_secret
from apps.core import clock
from tests.browser.conftest import Open, in_windows_of_all
from tests.pages.grid import PASSWORD, SLUG, Grid

OWN = "/me/second-factor/"


def set_up(page: Page) -> list[str]:
    secret = page.locator("#by-hand").inner_text().replace(" ", "")
    page.focus("#id_set_up_code")
    page.keyboard.type(code_at(secret, clock.now()))
    page.keyboard.press("Enter")
    expect(page.locator("#codes")).to_be_visible()
    return page.locator("#codes").inner_text().split("\n")


@pytest.mark.deep
@pytest.mark.parametrize("scripts", [True, False])
def test_a_second_factor_is_set_up_and_required_at_the_next_sign_in(grid: Grid, visit: Open, scripts: bool) -> None:
    window = visit(scripts=scripts)
    window.sign_in("alice")
    codes = set_up(window.go(OWN))
    window.page.context.clear_cookies()
    page = window.go("/sign-in/")
    page.fill("#id_username", "alice")
    page.fill("#id_password", PASSWORD)
    page.keyboard.press("Enter")
    expect(page.locator("#id_code")).to_be_visible()
    expect(page.locator("#id_password")).to_have_count(0)
    page.fill("#id_code", "000000")
    page.keyboard.press("Enter")
    expect(page.locator("#code-error")).to_be_visible()
    page.fill("#id_code", codes[0])
    page.keyboard.press("Enter")
    expect(page.locator("main h1")).to_be_visible()
    expect(window.go(OWN).locator("[data-testid=codes-left]")).to_have_attribute("data-value", "9")


@pytest.mark.deep
def test_after_the_session_ended_the_dialog_asks_for_the_code_and_the_action_goes_on(grid: Grid, visit: Open) -> None:
    at, secret = clock.now(), new_secret()
    add_second_factor(
        user=grid.admin, secret=secret, code=code_at(secret, at), at=at, actor=Actor(user=grid.admin, via="page")
    )
    window = visit()
    window.sign_in()
    page = window.go(f"/policy/{SLUG}/n/{grid.uid('/biomed')}/biomed/?panel=shares")
    page.fill("#shares", "25 %")
    page.fill("#reason", "Kept")
    page.context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
    page.click("#publish")
    page.fill("#again-password", PASSWORD)
    page.keyboard.press("Enter")
    code = page.locator("#sign-in-again #id_code")
    expect(code).to_be_focused()
    assert window.axe() == []
    code.fill("000000")
    page.keyboard.press("Enter")
    expect(page.locator("#sign-in-again #code-error")).to_be_visible()
    code.fill(code_at(secret, at + timedelta(seconds=30)))
    page.keyboard.press("Enter")
    expect(page.locator("#problem .success")).to_contain_text("3")
    expect(page.locator("#changed li").first).to_contain_text("Kept")


@in_windows_of_all
def test_its_pages_are_accessible_and_fit(grid: Grid, visit: Open, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width)
    window.sign_in("alice")
    page = window.go(OWN)
    assert window.axe() == []
    assert window.overflow() <= 0
    set_up(page)
    assert window.axe() == []
    assert window.overflow() <= 0
    window.go(OWN)
    assert window.axe() == []
    window.page.context.clear_cookies()
    at, secret = clock.now(), new_secret()
    eva = User.objects.get(username="admin")
    add_second_factor(user=eva, secret=secret, code=code_at(secret, at), at=at, actor=Actor(user=eva, via="page"))
    page = window.go("/sign-in/")
    page.fill("#id_username", "admin")
    page.fill("#id_password", PASSWORD)
    page.keyboard.press("Enter")
    expect(page.locator("#id_code")).to_be_focused()
    assert window.axe() == []
    assert window.overflow() <= 0
