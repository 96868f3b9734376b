"""My tokens in a real browser: with the keyboard, without script, in both themes, at both widths."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from apps.accounts import services
from apps.accounts.models import Token
from apps.core import clock
from tests.browser.conftest import Open, in_windows_of_all
from tests.pages.grid import PASSWORD, Grid


def fill_in(page: Page, name: str = "laptop") -> None:
    page.fill("#id_name", name)
    page.check("input[value='self:read']")
    page.fill("#id_password", PASSWORD)


def test_a_token_is_created_copied_used_rotated_and_revoked(grid: Grid, visit: Open) -> None:
    window = visit()
    window.page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=window.base)
    window.sign_in("alice")
    page = window.go("/me/tokens/")
    fill_in(page)
    page.locator("form:has(#id_name) button[type=submit]").click()
    expect(page.locator("#secret-title")).to_be_focused()
    secret = page.locator("#secret").inner_text()
    copy = page.locator("button[data-copy=secret]")
    copy.click()
    expect(page.locator("#status")).to_have_text(copy.get_attribute("data-copied") or "no words")
    assert page.evaluate("navigator.clipboard.readText()") == secret
    assert services.verify_token(secret, at=clock.now())[0] == grid.alice
    page.locator("section[aria-labelledby=secret-title] a[href='/me/tokens/']").click()
    expect(page.locator("#secret")).to_have_count(0)

    page.locator("tr:has-text('laptop') a[href$='/rotate/']").click()
    page.fill("#id_password", PASSWORD)
    page.locator("main form button[type=submit]").click()
    assert page.locator("#secret").inner_text() != secret
    expect(page.locator("[data-testid=old-secret]")).to_be_visible()

    page.locator("tr:has-text('laptop') a[href$='/revoke/']").click()
    page.locator("main form button[type=submit]").click()
    expect(page.locator("#problem .success")).to_contain_text("laptop")
    expect(page.locator("[data-testid=token]")).to_have_attribute("data-state", "revoked")
    assert Token.objects.get().revoked_at is not None


@pytest.mark.deep
def test_tokens_work_without_scripts(grid: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in("alice")
    page = window.go("/me/tokens/")
    fill_in(page, "no script")
    page.click("form:has(#id_name) button[type=submit]")
    assert re.fullmatch(r"fsh_\w+", page.locator("#secret").inner_text())
    expect(page.locator("button[data-copy=secret]")).to_be_hidden()


@pytest.mark.deep
def test_a_token_is_created_by_keyboard(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in("alice")
    page = window.go("/me/tokens/")
    page.locator("#id_name").focus()
    page.keyboard.type("keyboard")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    for _step in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "id_password":
            break
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.locator("#secret-title")).to_be_focused()
    assert Token.objects.get().scopes == ["self:read"]


@in_windows_of_all
def test_the_pages_are_accessible_and_fit_their_window(grid: Grid, visit: Open, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width)
    window.sign_in("admin")
    problems: dict[str, list[str]] = {}
    wide: dict[str, int] = {}

    def look(name: str) -> None:
        problems[name], wide[name] = window.axe(), window.overflow()

    page = window.go("/me/tokens/")
    look("empty")
    page.click("form:has(#id_name) summary")
    page.fill("#id_entry", "/physics")
    page.click("form:has(#id_name) button[type=submit]")
    page.fill("#id_name", "x")
    page.fill("#id_password", "wrong")
    page.check("input[value='admin']")
    page.click("form:has(#id_name) button[type=submit]")
    expect(page.locator(".note.bad")).to_be_visible()
    look("errors")
    page = window.go("/me/tokens/")
    fill_in(page, "a name as long as names may become in a list that is narrow")
    page.click("form:has(#id_name) button[type=submit]")
    expect(page.locator("#secret")).to_be_visible()
    look("made")
    window.follow("a[href$='/rotate/']")
    look("rotate")
    window.go("/me/tokens/")
    window.follow("a[href$='/revoke/']")
    look("revoke")
    assert {name: found for name, found in problems.items() if found} == {}
    assert {name: pixels for name, pixels in wide.items() if pixels > 0} == {}
