"""Who sits before a page, and with what: a mouse or a keyboard in Chromium, or Firefox. A journey is written once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

from django.conf import settings
from django.test import Client
from playwright.sync_api import expect

from apps.accounts.models import User
from tests.browser.conftest import Visit
from tests.browser.firefox import Firefox
from tests.browser.hands import Hand, Mouse, tab_to

N_ANIMATIONS = "document.getAnimations().filter((each) => each.effect.getComputedTiming().duration > 1).length"
MOST_BORDERS = 30
HAS_FOCUS = "return document.activeElement?.matches(arguments[0])"


class Desk(Protocol):
    """Selectors are of CSS; `shows` and `has_focus` wait for what they say."""

    def sign_in(self, username: str) -> None: ...
    def go(self, path: str) -> None: ...
    def press(self, selector: str) -> None: ...
    def write(self, selector: str, text: str) -> None: ...
    def pull(self, selector: str) -> None: ...
    def shows(self, selector: str, text: str = "") -> None: ...
    def has_focus(self, selector: str) -> None: ...
    def value(self, selector: str, attribute: str) -> str: ...
    def n_animations(self) -> int: ...


@dataclass
class ChromiumDesk:
    """With the mouse, or with the keyboard alone. is_still: the system asks for reduced motion."""

    window: Visit
    hand: Hand
    is_still: bool

    def __post_init__(self) -> None:
        self.window.page.emulate_media(reduced_motion="reduce" if self.is_still else "no-preference")

    def sign_in(self, username: str) -> None:
        self.window.sign_in(username)

    def go(self, path: str) -> None:
        self.window.go(path)

    def press(self, selector: str) -> None:
        self.hand.press(self.window.page, selector)

    def write(self, selector: str, text: str) -> None:
        self.hand.write(self.window.page, selector, text)

    def pull(self, selector: str) -> None:
        """A border of the editor, by some points to the right."""
        page = self.window.page
        if isinstance(self.hand, Mouse):
            box = page.locator(f"{selector} .line").bounding_box()
            assert box is not None
            x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
            page.mouse.move(x, y)
            page.mouse.down()
            page.mouse.move(x + 40, y, steps=4)
            page.mouse.up()
        else:
            tab_to(page, "#stage [role=slider][tabindex='0']")
            for _ in range(MOST_BORDERS):
                if page.locator(selector).evaluate("each => each === document.activeElement"):
                    break
                page.keyboard.press("n")
            for key in ("ArrowRight", "ArrowRight", "Enter"):
                page.keyboard.press(key)

    def shows(self, selector: str, text: str = "") -> None:
        expect(self.window.page.locator(selector).filter(has_text=text).first).to_be_visible()

    def has_focus(self, selector: str) -> None:
        expect(self.window.page.locator(selector)).to_be_focused()

    def value(self, selector: str, attribute: str) -> str:
        return self.window.page.locator(selector).first.get_attribute(attribute) or ""

    def n_animations(self) -> int:
        return int(self.window.page.evaluate(N_ANIMATIONS))


@dataclass
class FirefoxDesk:
    """With the mouse, and with reduced motion."""

    browser: Firefox
    base: str

    def sign_in(self, username: str) -> None:
        client = Client()
        client.force_login(User.objects.get(username=username))
        self.browser.go(f"{self.base}/static/favicon.svg")
        self.browser.add_cookie(settings.SESSION_COOKIE_NAME, client.cookies[settings.SESSION_COOKIE_NAME].value)

    def go(self, path: str) -> None:
        self.browser.go(f"{self.base}{path}")

    def press(self, selector: str) -> None:
        self.browser.click(selector)

    def write(self, selector: str, text: str) -> None:
        self.browser.write(selector, text)

    def pull(self, selector: str) -> None:
        self.browser.drag(f"{selector} .line", 40)

    def shows(self, selector: str, text: str = "") -> None:
        self.browser.wait_for(selector, text)

    def has_focus(self, selector: str) -> None:
        self.browser.wait_until(HAS_FOCUS, selector)

    def value(self, selector: str, attribute: str) -> str:
        found = self.browser.evaluate(
            "return document.querySelector(arguments[0])?.getAttribute(arguments[1])", selector, attribute
        )
        return str(found or "")

    def n_animations(self) -> int:
        return int(self.browser.evaluate(f"return {N_ANIMATIONS}"))


@dataclass
class Journey:
    """What one needs to get somewhere: presses of a button, link or border, and how long each step took to be shown."""

    desk: Desk
    n_clicks: int = 0
    steps: list[str] = field(default_factory=list)

    def press(self, selector: str) -> None:
        self.n_clicks += 1
        self.desk.press(selector)

    def pull(self, selector: str) -> None:
        self.n_clicks += 1
        self.desk.pull(selector)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = monotonic()
        yield
        self.steps.append(f"{name} {(monotonic() - began) * 1e3:.0f} ms")

    def say(self, name: str) -> None:
        print(f"\n{name}: {self.n_clicks} clicks; {', '.join(self.steps)}")
