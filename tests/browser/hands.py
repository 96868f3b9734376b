"""The two ways to work a page: with the mouse, and with nothing but the keyboard."""

from __future__ import annotations

from typing import Protocol

from playwright.sync_api import Page, expect

STOPS = (
    ":is(a[href], button, input:not([type=radio]), select, textarea, summary:first-of-type, [tabindex])"
    ":not([tabindex='-1'], :disabled, [inert] *)"
)
ROWS = "tbody tr[role=row]"
# From where the focus is: 0 where it is on the element, and never more than lead to it. Where a page has no focus, it
# isn't known where a key begins; and after the last stop comes the top of the page.
PRESSES = """(wanted, way) => {
  const at = document.activeElement;
  if (at === wanted) return 0;
  if (!at || at === document.body) return 1;
  const isAfter = (one, other) => Boolean(other.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING);
  const isAhead = isAfter(wanted, at);
  const between = [...document.querySelectorAll(way)].filter((each) => each !== wanted && isAfter(each, at)
    && (!isAhead || isAfter(wanted, each))
    && each.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true }));
  return between.length + 1;
}"""


class Hand(Protocol):
    """Uses a control as a user would who has only this input device."""

    def press(self, page: Page, selector: str) -> None: ...
    def write(self, page: Page, selector: str, text: str) -> None: ...


class Mouse:
    def press(self, page: Page, selector: str) -> None:
        page.click(selector)

    def write(self, page: Page, selector: str, text: str) -> None:
        page.click(selector)
        page.fill(selector, text)


class Keys:
    """Tab continues from the focus, and from the top of the page after its end.

    A treegrid is one stop: arrows go to the row, and F2 into its field.
    """

    def press(self, page: Page, selector: str) -> None:
        tab_to(page, selector)
        page.keyboard.press("Enter")

    def write(self, page: Page, selector: str, text: str) -> None:
        row = page.locator(selector).evaluate("each => each.tabIndex < 0 ? each.closest('tr[role=row]')?.id ?? '' : ''")
        if row:
            tab_to(page, "tbody tr[tabindex='0']")
            page.keyboard.press("Home")
            _go(page, f"#{row}", "ArrowDown", ROWS)
            page.keyboard.press("F2")
        else:
            tab_to(page, selector)
        page.keyboard.press("Control+a")
        page.keyboard.type(text)


HANDS: dict[str, Hand] = {"mouse": Mouse(), "keys": Keys()}
BY_HAND = ("mouse", "keys")


def tab_to(page: Page, selector: str) -> None:
    """With the Tab key alone, as far as it takes."""
    _go(page, selector, "Tab", STOPS)


def _go(page: Page, selector: str, key: str, way: str, most: int = 150) -> None:
    """Presses as often as surely leads nowhere past it, and asks then; to ask after each press takes twice as long."""
    wanted = page.locator(selector).first
    expect(wanted).to_be_visible()
    while presses := wanted.evaluate(PRESSES, way):
        most -= presses
        assert most >= 0, f"{selector} is not reached by {key}"
        for _ in range(presses):
            page.keyboard.press(key)
