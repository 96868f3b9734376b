"""Search by keys alone, on a wide page and a narrow one."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, TimeoutError, expect

from tests.browser.conftest import NARROW, WIDE, Open
from tests.pages.grid import SLUG, Grid

in_themes = pytest.mark.parametrize(
    ("width", "theme"), [(WIDE, "light"), pytest.param(NARROW, "dark", marks=pytest.mark.deep)]
)
CHOSEN = "[role=option][aria-selected=true]"


def ask(page: Page, text: str) -> None:
    page.keyboard.press("Control+a")
    page.keyboard.type(text)


def press_in_turn(page: Page, first: str, second: str, address: re.Pattern[str]) -> None:
    """On a busy machine the second key may come too late for the first: both are pressed again, as one would."""
    for _ in range(5):
        page.keyboard.press(first)
        page.keyboard.press(second)
        try:
            return page.wait_for_url(address, timeout=4_000)
        except TimeoutError:
            continue
    raise AssertionError(f"{first} {second} leads to {page.url}")


@pytest.mark.deep
def test_search_by_keyboard(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go("/usage/sources/")
    field = page.locator(".palette [role=combobox]")

    page.keyboard.press("/")
    expect(field).to_be_focused()
    expect(page.locator("[data-key=actions] [role=option]")).to_have_count(3)
    assert window.axe() == []
    page.keyboard.type("bio")
    expect(page.locator(CHOSEN)).to_contain_text("biomed")
    expect(field).to_have_attribute("aria-activedescendant", page.locator(CHOSEN).get_attribute("id") or "-")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("biomed")

    page.keyboard.press("Control+k")
    expect(page.locator("[data-key=recent] [role=option]")).to_contain_text("biomed")
    ask(page, "alice")
    expect(page.locator(CHOSEN)).to_contain_text("Rank")
    assert window.axe() == []
    with page.expect_navigation():
        page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("alice")

    page.keyboard.press("/")
    ask(page, "how is the weather?")
    expect(page.locator(".palette [data-testid=nothing]")).to_be_visible()
    page.keyboard.press("Escape")
    expect(field).to_have_value("")
    page.keyboard.press("Escape")
    expect(page.locator(".palette")).not_to_be_visible()

    press_in_turn(page, "g", "t", re.compile(f"/policy/{SLUG}/$"))
    page.keyboard.press("?")
    expect(page.locator(".keys-sheet [data-keys-of=page] kbd").first).to_have_text("e")
    assert window.axe() == []
    page.keyboard.press("Escape")
    page.reload()
    page.keyboard.press("t")
    assert page.url.endswith(f"/policy/{SLUG}/"), "one key alone opens no page, however fresh this one is"
    page.keyboard.press("e")
    page.wait_for_url("**/edit/**")
    page.go_back()
    page.locator("#filter").focus()
    page.keyboard.type("g/?e")
    expect(page.locator("#filter")).to_have_value("g/?e")


@pytest.mark.deep
@in_themes
def test_answers_are_accessible_and_opened_by_keys_alone(grid: Grid, visit: Open, theme: str, width: int) -> None:
    window = visit(width=width, theme=theme)
    window.sign_in()
    page = window.go("/usage/sources/")
    for question, first in (
        ("who is over", "over"),
        ("atlas 12 %", r"Set atlas to 12\s%"),
        ("undo", "Undo revision"),
        ("last month", " of SweGrid"),
        ("why does my job wait", "why a job waits"),
        ("connect scheduler", "Connect a scheduler"),
    ):
        page.keyboard.press("Control+k")
        ask(page, question)
        expect(page.locator(CHOSEN)).to_contain_text(re.compile(first, re.IGNORECASE))
        assert window.axe(theme) == [], question
        assert window.overflow() <= 0, question
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        expect(page.locator(".palette")).not_to_be_visible()
    page.keyboard.press("Control+k")
    ask(page, "atlas 12 %")
    expect(page.locator(CHOSEN)).to_contain_text("Set atlas")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    expect(page.locator("#shares")).to_have_value("12 %")


def test_a_narrow_window_has_a_full_screen_search(grid: Grid, visit: Open) -> None:
    window = visit(width=NARROW, theme="dark")
    window.sign_in()
    page = window.go(f"/policy/{SLUG}/")
    assert window.overflow() <= 0
    page.locator("[data-palette]").click()
    page.keyboard.type("alice")
    expect(page.locator("[data-key=people] [role=option]").first).to_be_visible()
    box = page.locator(".palette").bounding_box()
    assert box is not None
    assert (box["x"], box["y"], box["width"], box["height"]) == (0, 0, NARROW, 900)
    assert window.axe("dark") == []
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("[data-palette]")).to_be_focused()

    page.route("**/search/_results*", lambda route: route.abort())
    page.keyboard.press("Control+k")
    expect(page.locator(".palette [data-retry]")).to_be_visible()
    expect(page.locator("[role=option]").first).to_be_visible()
    page.unroute("**/search/_results*")
    page.locator(".palette [data-retry]").click()
    expect(page.locator("[data-key=actions]")).to_be_visible()
    window.complaints.clear()  # the request that was cut off


def test_single_keys_can_be_switched_off(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go("/")
    page.keyboard.press("?")
    with page.expect_navigation():
        page.locator(".keys-sheet form button").click()
    page.keyboard.press("/")
    page.keyboard.press("Control+k")
    expect(page.locator(".palette [role=combobox]")).to_have_value("")
    expect(page.locator(".palette")).to_be_visible()
    assert "/" not in page.locator(".palette [role=combobox]").input_value()
