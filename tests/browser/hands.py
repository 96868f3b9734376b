"""The two ways to work a page: with the mouse, and with nothing but the keyboard."""

from __future__ import annotations

from typing import Protocol

from playwright.sync_api import Page, expect


class Hand(Protocol):
    """Uses a control as somebody would who has this and nothing else."""

    def press(self, page: Page, selector: str) -> None: ...
    def write(self, page: Page, selector: str, text: str) -> None: ...


class Mouse:
    def press(self, page: Page, selector: str) -> None:
        page.click(selector)

    def write(self, page: Page, selector: str, text: str) -> None:
        page.click(selector)
        page.fill(selector, text)


class Keys:
    """Tab goes on from where the focus is, and from the top of the page once it has come to the end.

    A treegrid is one stop: arrows go to the row, and F2 into its field.
    """

    def press(self, page: Page, selector: str) -> None:
        _tab_to(page, selector)
        page.keyboard.press("Enter")

    def write(self, page: Page, selector: str, text: str) -> None:
        row = page.locator(selector).evaluate("each => each.tabIndex < 0 ? each.closest('tr[role=row]')?.id ?? '' : ''")
        if row:
            _tab_to(page, "tbody tr[tabindex='0']")
            page.keyboard.press("Home")
            _go(page, f"#{row}", "ArrowDown")
            page.keyboard.press("F2")
        else:
            _tab_to(page, selector)
        page.keyboard.press("Control+a")
        page.keyboard.type(text)


HANDS: dict[str, Hand] = {"mouse": Mouse(), "keys": Keys()}


def _tab_to(page: Page, selector: str) -> None:
    _go(page, selector, "Tab")


def _go(page: Page, selector: str, key: str, most: int = 150) -> None:
    wanted = page.locator(selector).first
    expect(wanted).to_be_visible()
    for _ in range(most):
        if wanted.evaluate("each => each === document.activeElement"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{selector} is not reached by {key}")
