"""Every page there is, in both themes, at three widths, with scripts and without: complete by construction.

The pages are those of the rights matrix, which fails where a route is missing. Each is photographed; with
FAIRSHARE_SHOTS the pictures go to that folder, to be looked at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings, settings
from playwright.sync_api import Page

from apps.priorities import served
from tests.api.conftest import _fresh_process  # noqa: F401 - fixture
from tests.browser.conftest import THEMES, Open, Visit
from tests.rights_world import Row, World
from tests.test_idor_matrix import ACTORS, ROWS, answer_text

pytestmark = pytest.mark.timeout(600)
WIDTHS = (1440, 1024, 390)
PARTS = 6
LONGEST_WALK = 400  # presses of Tab: more controls than that are no page for a keyboard
# Where the focus is, and whether somebody would see it there.
FOCUS = """() => {
  const each = document.activeElement;
  if (!each || each === document.body) return null;
  const box = each.getBoundingClientRect(), style = getComputedStyle(each);
  const seen = box.width > 0 && box.height > 0 && style.visibility === "visible";
  if (!each.dataset.walked) each.dataset.walked = "1";
  return { seen, what: each.outerHTML.slice(0, 160) };
}"""
# Controls that Tab should have come to; roving ones and all but the chosen one of a group have other keys.
MISSED = """() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
  .filter((each) => each.tabIndex >= 0 && !each.disabled && each.type !== "hidden" && each.checkVisibility({
    checkOpacity: false, checkVisibilityCSS: true, contentVisibilityAuto: true }))
  .filter((each) => !each.closest("[inert], [popover]:not(:popover-open), dialog:not([open])"))
  .filter((each) => !(each.type === "radio" && !each.checked
    && document.querySelector(`input[type=radio][name="${each.name}"]`)))
  .filter((each) => !each.dataset.walked)
  .map((each) => each.outerHTML.slice(0, 160))"""


@pytest.fixture(scope="session")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(os.environ.get("FAIRSHARE_SHOTS") or tmp_path_factory.mktemp("shots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def world(live_server: Any, rights_world: World, settings: LazySettings) -> World:
    settings.FAIRSHARE_ISSUER = "vo-a.example"  # as the rights matrix has it
    served.look()
    return rights_world


def is_page(row: Row) -> bool:
    """What somebody opens: no fragment, no answer of the API, and an administrator may see it."""
    last = row.route.rstrip("/").rsplit("/", 1)[-1]
    is_ours = not row.route.startswith(("api/", "admin/", "healthz", "readyz", "metrics", "fairshare"))
    return row.method == "get" and is_ours and not last.startswith("_") and _status(row, "admin") in ("200", "302")


def _status(row: Row, actor: str) -> str:
    return row.statuses.split()[ACTORS.index(actor)]


PAGES = [row for row in ROWS if is_page(row)]


def pages_of(world: World, part: int) -> Iterator[tuple[str, str, Row]]:
    """Name, address and row of this part's pages; downloads and redirects are none."""
    for number, row in enumerate(PAGES):
        if number % PARTS != part:
            continue
        answer = world.ask(row, "admin")
        if answer.status_code == 200 and "<html" in answer_text(answer)[:400]:
            name = re.sub(r"[^a-z0-9]+", "-", re.sub(r"<\w+:(\w+)>", r"\1", row.route or "overview")).strip("-")
            yield f"{number:03d}-{name or 'overview'}", row.path.format(**world.objects), row


def sign_in(window: Visit, world: World, actor: str) -> None:
    session = world.client(actor).cookies[settings.SESSION_COOKIE_NAME].value
    cookie = {"name": settings.SESSION_COOKIE_NAME, "value": session, "url": window.base}
    window.page.context.add_cookies([cookie])  # type: ignore[list-item]


def photograph(page: Page, folder: Path, name: str, width: int) -> None:
    for theme in THEMES:
        page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
        picture = page.screenshot(path=folder / f"{name}-{theme}-{width}.png", full_page=True)
        assert len(picture) > 2_000, name


def test_there_are_as_many_pages_as_there_were() -> None:
    """A filter that loses pages by mistake would make everything below true of nothing."""
    assert len(PAGES) > 80


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_is_accessible_in_both_themes_and_as_wide_as_its_window(
    world: World, visit: Open, shots: Path, part: int, width: int
) -> None:
    window = visit(width=width)
    sign_in(window, world, "admin")
    for name, path, _row in pages_of(world, part):
        page = window.go(path)
        assert page.locator("h1").count() == 1, path
        window.look()
        photograph(page, shots, name, width)


@pytest.mark.parametrize("part", range(PARTS))
def test_a_page_says_the_same_without_scripts(world: World, visit: Open, part: int) -> None:
    window = visit(width=1440, scripts=False)
    sign_in(window, world, "admin")
    for _name, path, _row in pages_of(world, part):
        page = window.go(path)
        assert page.locator("h1").inner_text().strip(), path
        window.look()
        for form in page.locator("main form").all():
            assert form.get_attribute("action") is not None or form.get_attribute("method"), (path, form.inner_html())


@pytest.mark.parametrize("part", range(PARTS))
def test_tab_comes_to_every_control_of_a_page_and_out_again(world: World, visit: Open, part: int) -> None:
    window = visit(width=1440)
    sign_in(window, world, "admin")
    for _name, path, _row in pages_of(world, part):
        page = window.go(path)
        if page.evaluate(FOCUS) is not None:  # the page begins at its answer: once round, to the top
            _walk_out(page, path)
        first = None
        for _ in range(LONGEST_WALK):
            page.keyboard.press("Tab")
            at = page.evaluate(FOCUS)
            if at is None:
                break
            first = first or at["what"]
            assert at["seen"], (path, at["what"])
        assert page.evaluate(FOCUS) is None, f"{path}: Tab doesn't come to an end"
        assert "skip" in (first or ""), (path, first)
        assert page.evaluate(MISSED) == [], path


def _walk_out(page: Page, path: str) -> None:
    for _ in range(LONGEST_WALK):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUS) is None:
            return
    raise AssertionError(f"{path}: Tab doesn't come to an end")


@pytest.mark.parametrize("part", range(PARTS))
def test_a_member_sees_pages_that_are_as_good(world: World, visit: Open, shots: Path, part: int) -> None:
    """What alice may open: narrower trees, other sentences, empty lists."""
    window = visit(width=390)
    sign_in(window, world, "alice")
    for name, path, row in pages_of(world, part):
        if _status(row, "alice") == "200":
            page = window.go(path)
            window.look()
            photograph(page, shots, f"{name}-alice", 390)
