"""One context a test; every page is watched for policy violations and script errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, expect

from apps.accounts.models import User
from tests.browser.axe import load_axe, run_axe
from tests.browser.contexts import Contexts, Taken
from tests.browser.secrets_seen import SecretsSeen
from tests.pages.grid import PASSWORD, Grid
from tests.worlds import fresh_process  # noqa: F401 - fixture

# Says so where a control that has the focus is taken out of the page and nothing else gets it.
FOCUS_WATCH = """
let last = null;
addEventListener("focusin", (event) => { last = event.target; }, true);
addEventListener("focusout", (event) => {
  const left = event.target;
  setTimeout(() => { if (left.isConnected && last === left && document.activeElement === document.body) last = null; });
}, true);
addEventListener("DOMContentLoaded", () => new MutationObserver(() => {
  const lost = last;
  if (!lost || lost.isConnected) return;
  setTimeout(() => {
    if (last !== lost || (document.activeElement ?? document.body) !== document.body) return;
    last = null;
    console.error(`the focus is lost: ${lost.outerHTML.slice(0, 200)}`);
  }, 300);
}).observe(document, { childList: true, subtree: true }));
"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
PATIENCE_S = 3.0
SET_THEME = "theme => { document.documentElement.dataset.theme = theme; }"
# Navigation and top bar are the same on every page: tests/every_page checks them.
WITHOUT_FRAME = {"exclude": [[".app > .nav"], [".app > .topbar"]]}
# What a theme or a width changes; all else is the same page as in another window.
BY_WINDOW = {
    "runOnly": ["color-contrast", "link-in-text-block", "scrollable-region-focusable", "link-name", "button-name"]
}
THEMES = ("light", "dark")
WIDE, NARROW = 1440, 390
PATIENCE_MS = 30_000  # a busy machine is no finding
expect.set_options(timeout=PATIENCE_MS)
# Pages open in a wide window with the light theme; the width is then also checked in a narrow window, and of every page
# axe with the dark theme (tests/every_page). `make night` opens pages in each combination.
in_windows = pytest.mark.parametrize(
    ("width", "theme"),
    [
        pytest.param(width, theme, marks=() if (width, theme) == (WIDE, "light") else pytest.mark.deep)
        for width in (WIDE, NARROW)
        for theme in THEMES
    ],
)


def in_windows_of_all(test: Callable[..., None]) -> Callable[..., None]:
    """Pages in each of their states (filled, opened, refused). `make test` looks at each once, in every_page."""
    marked: Callable[..., None] = pytest.mark.deep(in_windows(test))
    return marked


at_widths = pytest.mark.parametrize("width", [WIDE, *(pytest.param(n, marks=pytest.mark.deep) for n in (NARROW, 1024))])


@pytest.fixture
def grid(open_grid: Grid, transactional_db: None) -> Grid:
    return open_grid


def settled(page: Page, number: str, *, most: int) -> int:
    """A number of the page when it is at most this, or after some seconds. Asked from here: pages forbid `eval`, and a
    test may have stopped their clock.
    """
    ends_at = time.monotonic() + PATIENCE_S
    while (found := int(page.evaluate(number))) > most and time.monotonic() < ends_at:
        page.wait_for_timeout(20)
    return found


def come(page: Page, *cards: str) -> None:
    """Scrolls to cards that follow their page, all of them without names, until each has come; then to the top."""
    places = [page.locator(card) for card in cards] or page.locator("[data-card]").all()
    for place in places:
        place.scroll_into_view_if_needed()
        expect(place).to_have_attribute("data-come", "")
    page.evaluate("scrollTo(0, 0)")


@dataclass
class Visit:
    """One browser window and everything it complained about."""

    page: Page
    base: str
    scripts: bool = True
    is_deep: bool = False
    checks_narrow: bool = False  # the width is also checked in a narrow window
    checks_dark: bool = False  # axe also checks the page in a narrow window with the dark theme
    checks_frame: bool = False  # axe also checks the navigation and the top bar
    skips_axe: bool = False  # another variant of the same journey runs axe
    complaints: list[str] = field(default_factory=list)

    def go(self, path: str) -> Page:
        self.page.goto(f"{self.base}{path}")
        return self.page

    def follow(self, selector: str) -> None:
        """A click that leads to another page, which has come when this ends; a bare click doesn't wait for it."""
        with self.page.expect_navigation():
            self.page.click(selector)

    def sign_in(self, username: str = "admin") -> None:
        """A session without the form, which has its own test."""
        client = Client()
        client.force_login(User.objects.get(username=username))
        session = client.cookies[settings.SESSION_COOKIE_NAME].value
        self.page.context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": self.base}])

    def sign_in_by_form(self, username: str = "admin") -> None:
        self.go("/sign-in/")
        self.page.fill("#id_username", username)
        self.page.fill("#id_password", PASSWORD)
        self.page.click("button[type=submit]")
        self.page.wait_for_selector("main h1")

    def axe(self, theme: str = "") -> list[str]:
        """Findings of every impact, each with where it is; the page stays in the theme that is given."""
        self._load_axe()
        if theme:
            self.page.evaluate(SET_THEME, theme)
        self.page.evaluate("scrollTo(0, 0)")  # what lies under a bar that stays is no finding: it scrolls away
        return self._run_axe({}) + self._check_narrow()

    def _run_axe(self, rules: dict[str, Any]) -> list[str]:
        context = {"include": [["html"]]} | ({} if self.checks_frame or self.is_deep else WITHOUT_FRAME)
        found = self._find(context, rules)
        return [f"{rule['id']}: {node['target']} {node['failureSummary']}" for rule in found for node in rule["nodes"]]

    def _load_axe(self) -> bool:
        """Whether this document had no axe yet; a click waits for the beginning of the next page only."""
        self.page.wait_for_load_state()
        return load_axe(self.page, self.base)

    def _find(self, context: dict[str, Any], rules: dict[str, Any]) -> list[dict[str, Any]]:
        """A click's navigation may replace the document while axe runs in it: then axe checks the new document."""
        try:
            return run_axe(self.page, context, rules, every=self.is_deep)
        except Error:
            self.page.wait_for_load_state()
            if not self._load_axe():
                raise
            return run_axe(self.page, context, rules, every=self.is_deep)

    def _check_narrow(self) -> list[str]:
        if not self.checks_narrow and not self.checks_dark:
            return []
        self.resize(NARROW)
        pixels = self.overflow()
        found = [f"{pixels} pixels wider than a window of {NARROW}"] if pixels > 0 else []
        if self.checks_dark:
            theme = self.page.evaluate("document.documentElement.dataset.theme ?? ''")
            self.page.evaluate(SET_THEME, "dark")
            found += self._run_axe(BY_WINDOW)
            self.page.evaluate(SET_THEME, theme)
        self.resize(WIDE)
        return [f"narrow: {finding}" for finding in found]

    def look(self) -> None:
        """No finding of axe, and nothing wider than the window. The theme stays.

        `make night` checks both themes. Only the width is checked without scripts, because axe needs the timers of
        the page, and where another variant of the same journey runs axe.
        """
        assert self.overflow() <= 0, self.page.url
        if self.checks_narrow and not self.scripts:
            self.resize(NARROW)
            assert self.overflow() <= 0, self.page.url
            self.resize(WIDE)
        if not self.scripts or (self.skips_axe and not self.is_deep):
            return
        theme = self.page.evaluate("document.documentElement.dataset.theme ?? ''")
        for each in THEMES if self.is_deep else ("light",):
            assert self.axe(each) == [], (self.page.url, each)
        self.page.evaluate(SET_THEME, theme)

    def look_at_widths(self) -> None:
        """`look` wide and narrow, and at what the dark theme changes; the window is wide then."""
        for width in (NARROW, WIDE):
            self.resize(width)
            self.checks_dark = width == WIDE
            self.look()
        self.checks_dark = False

    def resize(self, width: int) -> None:
        self.page.set_viewport_size({"width": width, "height": 900})

    def overflow(self) -> int:
        """Pixels by which the page is wider than its window, when its pictures are drawn for a new width."""
        return settled(self.page, OVERFLOW, most=0)


Open = Callable[..., Visit]


@pytest.fixture(scope="session")
def contexts(browser: Browser, live_server: Any) -> Contexts:
    return Contexts(browser, live_server.url, FOCUS_WATCH)


@pytest.fixture
def visit(
    contexts: Contexts, live_server: Any, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> Iterator[Open]:
    """`visit(theme=…, width=…, scripts=…)` opens a window; at the end nothing may have been complained about, and no
    address or log line may show a token. `is_kept=False` where the test sets the clock of the browser."""
    seen = SecretsSeen()
    opened: list[Taken] = []
    visits: list[Visit] = []
    is_deep = bool(request.config.getoption("deep"))
    callspec = getattr(request.node, "callspec", None)
    checks_narrow = not is_deep and callspec is not None and callspec.params.get("width") == WIDE

    def open_window(*, theme: str = "light", width: int = WIDE, scripts: bool = True, is_kept: bool = True) -> Visit:
        taken = contexts.take(scripts=scripts, is_kept=is_kept)
        opened.append(taken)
        context = taken.context
        context.on("request", seen.note)
        context.add_cookies([{"name": "theme", "value": theme, "url": live_server.url}])
        made = Visit(context.new_page(), live_server.url, scripts, is_deep, checks_narrow)
        made.resize(width)
        made.page.set_default_timeout(PATIENCE_MS)
        made.page.on("console", lambda message: _listen(made, message))
        made.page.on("pageerror", lambda error: made.complaints.append(f"script error: {error}"))
        visits.append(made)
        return made

    yield open_window
    for taken in opened:
        seen.add_cookies(taken.context)
        taken.context.remove_listener("request", seen.note)
        contexts.give_back(taken)
    assert seen.found_in(record.getMessage() for record in caplog.get_records("call")) == []
    assert [complaint for each in visits for complaint in each.complaints] == []


def _listen(visit: Visit, message: ConsoleMessage) -> None:
    """Chromium reports each blocked style, script or image as a console error; a refused form (4xx) is no complaint."""
    is_refusal = "the server responded with a status of 4" in message.text
    if message.type == "error" and not is_refusal:
        visit.complaints.append(message.text)
