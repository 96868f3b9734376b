"""Every page there is, in both themes, at three widths, with scripts and without: complete by construction.

The pages are those of the rights matrix, which fails where a route is missing. With FAIRSHARE_SHOTS each is
photographed into that folder, for inspection.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from django.conf import settings
from playwright.sync_api import Page

from tests.browser.conftest import SET_THEME, THEMES, Open, Visit
from tests.rights_world import Row, World
from tests.test_idor_matrix import ACTORS, ROWS
from tests.worlds import fresh_process  # noqa: F401 - fixture

pytestmark = pytest.mark.timeout(600)
WIDTHS = (1440, 1024, 390)
PARTS = 6
# `make test` looks at every sixth page in a browser, and at the markup of each in test_texts.py.
LOOKED_AT = 1
# Plotly never takes the place of a first drawing, because none comes into view: its pictures have tests of their own.
FIRST_DRAWINGS = "window.IntersectionObserver = class { observe() {} unobserve() {} disconnect() {} };"
LONGEST_WALK = 400  # presses of Tab: more controls than that are no page for a keyboard
TWICE = """() => [...document.querySelectorAll("[id]")].map((each) => each.id)
  .filter((id, at, ids) => ids.indexOf(id) !== at)"""
# Each place that gets the focus, and whether it is visible there; null where it leaves the page.
WATCH = """() => {
  window.walked = [];
  window.reached = new WeakSet();
  addEventListener("focusin", ({ target }) => {
    const box = target.getBoundingClientRect(), style = getComputedStyle(target);
    const seen = box.width > 0 && box.height > 0 && style.visibility === "visible";
    window.reached.add(target);
    window.walked.push({ seen, what: target.outerHTML.slice(0, 160) });
  }, true);
  addEventListener("focusout", ({ relatedTarget }) => { if (!relatedTarget) window.walked.push(null); }, true);
}"""
SEEN_ONCE = """async () => {
  for (let y = 0; y < document.body.scrollHeight; y += innerHeight / 2) {
    scrollTo(0, y);
    await new Promise(requestAnimationFrame);
  }
  scrollTo(0, 0);
}"""
WALKED = "() => window.walked.splice(0)"
# Controls that Tab should have reached; roving ones and all but the chosen one of a group have other keys.
MISSED = """place => [...document.querySelector(place)
  .querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
  .filter((each) => each.tabIndex >= 0 && !each.disabled && each.type !== "hidden" && each.checkVisibility({
    checkOpacity: false, checkVisibilityCSS: true, contentVisibilityAuto: true }))
  .filter((each) => !each.closest("[inert], [popover]:not(:popover-open), dialog:not([open])"))
  .filter((each) => !(each.type === "radio" && !each.checked
    && document.querySelector(`input[type=radio][name="${each.name}"]`)))
  .filter((each) => !window.reached.has(each))
  .map((each) => each.outerHTML.slice(0, 160))"""


@pytest.fixture
def world(live_server: Any, world: World) -> World:
    return world


def is_page(row: Row) -> bool:
    """What a user opens: no fragment, no answer of the API, and an administrator may see it."""
    is_ours = not row.route.startswith(("api/", "admin/", "healthz", "readyz", "metrics", "fairshare"))
    return row.method == "get" and is_ours and "/_" not in f"/{row.route}" and _status(row, "admin") in ("200", "302")


def _status(row: Row, actor: str) -> str:
    return row.statuses.split()[ACTORS.index(actor)]


PAGES = [row for row in ROWS if is_page(row)]
FIGURE = re.compile(r"/(figures/[^/]+|live)(\.<str:form>)?$")
DOWNLOAD = re.compile(r"\.(\w+|<str:form>)$|/<slug:format>/$")


def pages_of(world: World, part: int) -> Iterator[tuple[str, str, Row]]:
    """Name, address and row of the pages of this part; a further row keeps the names and parts of the others."""
    times = Counter[str]()
    for row in PAGES:
        address = re.sub(r"[^a-z0-9]+", "-", re.sub(r"<\w+:(\w+)>", r"\1", row.route)).strip("-") or "overview"
        times[address] += 1
        name = f"{address}-{times[address]}" if times[address] > 1 else address
        if crc32(name.encode()) % PARTS == part and is_opened(row):
            yield name, row.path.format(**world.objects), row


def is_opened(row: Row) -> bool:
    """Whether the response is a page, not a download, the numbers of a figure or a redirect."""
    return _status(row, "admin") == "200" and not DOWNLOAD.search(row.route) and not FIGURE.search(row.route)


def sign_in(window: Visit, world: World, actor: str) -> None:
    cookie = {"name": settings.SESSION_COOKIE_NAME, "value": world.sessions[actor], "url": window.base}
    window.page.context.add_cookies([cookie])  # type: ignore[list-item]


def photograph(page: Page, name: str) -> None:
    """Both themes as full pages into the folder FAIRSHARE_SHOTS; without it none is taken."""
    if not (given := os.environ.get("FAIRSHARE_SHOTS")):
        return
    folder = Path(given)
    folder.mkdir(parents=True, exist_ok=True)
    width = (page.viewport_size or {"width": 0})["width"]
    for theme in THEMES:
        page.evaluate(SET_THEME, theme)
        page.screenshot(path=folder / f"{name}-{theme}-{width}.png", full_page=True)


def test_the_number_of_pages_is_unchanged() -> None:
    """A filter that loses pages by mistake would make everything below true of nothing."""
    assert sum(map(is_opened, PAGES)) > 70


@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=() if part == LOOKED_AT else pytest.mark.deep) for part in range(PARTS)]
)
def test_a_page_is_accessible_fits_and_is_reachable_by_tab(world: World, visit: Open, part: int) -> None:
    """One visit a page: axe in the light theme at the widest window and in the dark one at the narrowest."""
    window = visit(width=WIDTHS[0], is_kept=False)
    window.checks_dark = True
    if not window.is_deep:
        window.page.add_init_script(FIRST_DRAWINGS)
    sign_in(window, world, "admin")
    for number, (name, path, _row) in enumerate(pages_of(world, part)):
        page = window.go(path)
        window.checks_frame = number == 0
        assert page.locator("h1").count() == 1, path
        assert page.evaluate(TWICE) == [], f"{path}: ids that two elements have"
        walk_by_tab(page, path, with_frame=window.checks_frame or window.is_deep)
        for width in WIDTHS if window.is_deep else (WIDTHS[0], WIDTHS[-1]):
            window.resize(width)
            assert window.overflow() <= 0, (path, width)
            photograph(page, name)
        window.resize(WIDTHS[0])
        assert window.axe("light") == [], path


@pytest.mark.deep
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("theme", THEMES)
def test_a_page_is_accessible_in_each_theme_and_width(
    world: World, visit: Open, part: int, width: int, theme: str
) -> None:
    """Opened so, where the visit above changes theme and width of an open page."""
    window = visit(width=width, theme=theme)
    sign_in(window, world, "admin")
    found = []
    for _name, path, _row in pages_of(world, part):
        window.go(path)
        assert window.overflow() <= 0, (path, theme, width)
        found += [f"{path}: {finding}" for finding in window.axe(theme)]
    assert not found, "\n".join(found)


@pytest.mark.deep
@pytest.mark.parametrize("part", range(PARTS))
def test_a_page_fits_its_window_without_scripts(world: World, visit: Open, part: int) -> None:
    """Its text without scripts is that of the response, which test_texts.py compares."""
    window = visit(width=1440, scripts=False)
    sign_in(window, world, "admin")
    for _name, path, _row in pages_of(world, part):
        page = window.go(path)
        assert page.locator("h1").inner_text().strip(), path
        assert window.overflow() <= 0, path


def walk_by_tab(page: Page, path: str, *, with_frame: bool) -> None:
    """Tab reaches every control, each of them seen, and out again; the first leads past the navigation.

    with_frame: through the navigation, too; else the skip link is followed.
    """
    page.evaluate(SEEN_ONCE)  # figures that come when they are seen bring controls behind the place where Tab is
    page.wait_for_load_state("networkidle")
    page.evaluate(WATCH)
    if page.evaluate("document.activeElement !== document.body"):  # the page begins at its answer: once round
        _tab_out(page, path, presses=1)
    if not page.locator(".skip").count():  # a card that others frame has no navigation
        if page.evaluate(MISSED, "body"):
            assert all(at["seen"] for at in _tab_out(page, path, presses=1)), path
        assert page.evaluate(MISSED, "body") == [], path
        return
    page.keyboard.press("Tab")
    skip = page.evaluate(WALKED)
    assert len(skip) == 1, f"{path}: Tab comes to nothing"
    assert "skip" in skip[0]["what"], (path, skip[0]["what"])
    assert skip[0]["seen"], (path, skip[0]["what"])
    if not with_frame:
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main", path
        page.evaluate(WALKED)
    for at in _tab_out(page, path, presses=20):
        assert at["seen"], (path, at["what"])
    assert page.evaluate(MISSED, "body" if with_frame else "main") == [], path
    page.evaluate("document.activeElement.blur()")


def _tab_out(page: Page, path: str, *, presses: int) -> list[dict[str, Any]]:
    """The places on the way to the end of the page, asked for after so many presses, which are quicker than that."""
    places: list[dict[str, Any] | None] = []
    while None not in places and len(places) < LONGEST_WALK:
        for _ in range(presses):
            page.keyboard.press("Tab")
        places += page.evaluate(WALKED)
    assert None in places, f"{path}: Tab doesn't come to an end"
    return [at for at in places[: places.index(None)] if at is not None]


@pytest.mark.deep
@pytest.mark.parametrize("part", range(PARTS))
def test_pages_of_a_member_are_accessible_and_fit(world: World, visit: Open, part: int) -> None:
    """What alice may open: narrower trees, other sentences, empty lists."""
    window = visit(width=WIDTHS[0])
    sign_in(window, world, "alice")
    for name, path, row in pages_of(world, part):
        if _status(row, "alice") == "200":
            page = window.go(path)
            assert window.axe("light") == [], path
            window.resize(WIDTHS[-1])
            assert window.overflow() <= 0, path
            photograph(page, f"{name}-alice")
            window.resize(WIDTHS[0])
