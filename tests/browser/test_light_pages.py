"""Pages with the files of a running site: few requests, one Plotly, and nothing that joining breaks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.management import call_command
from playwright.sync_api import Request, Route, expect

from apps.web.templatetags import marks
from fairshare_web.static_files import StaticFiles
from tests.browser.conftest import Open
from tests.pages.grid import SLUG, Grid

MOST_REQUESTS = 25
CONTENT = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".woff2": "font/woff2"}


@pytest.fixture
def joined(settings: LazySettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Static files as a site collects them, without the packed ones. Icons drawn before name the other files."""
    marks.icon.cache_clear()
    monkeypatch.setattr(StaticFiles, "compress_files", lambda _self, _names: [])
    settings.STATIC_ROOT = tmp_path / "static"
    settings.STORAGES = settings.STORAGES | {"staticfiles": {"BACKEND": "fairshare_web.static_files.StaticFiles"}}
    call_command("collectstatic", interactive=False, verbosity=0)
    yield tmp_path / "static"
    marks.icon.cache_clear()


@pytest.fixture
def window(grid: Grid, visit: Open, joined: Path) -> Any:
    made = visit()

    def answer(route: Route) -> None:
        path = joined / re.sub(r".*?/static/|[?#].*", "", route.request.url)
        route.fulfill(body=path.read_bytes(), content_type=CONTENT.get(path.suffix, "application/octet-stream"))

    made.page.route("**/static/**", answer)
    return made


@pytest.mark.deep
def test_a_page_asks_for_few_files_and_one_plotly_at_most(grid: Grid, window: Any) -> None:
    policy = f"/policy/{SLUG}/"
    entry = f"{policy}n/{grid.uid('/biomed')}/biomed/"
    of_policy = [f"{policy}{name}/" for name in ("decay", "icicle", "algorithm", "allocations")]
    pages = {
        "admin": ["/", policy, entry, f"{entry}convergence/", *of_policy, "/usage/sources/"],
        "alice": ["/me/priority/", "/inbox/"],
    }
    asked: set[str] = set()  # one that is preloaded is used once more
    window.page.on("request", lambda request: _note(asked, request))
    heavy, drawn = {}, 0
    for who, paths in pages.items():
        window.sign_in(who)
        for path in paths:
            asked.clear()
            window.go(path)
            window.page.wait_for_load_state("networkidle")
            bundles = [address for address in asked if "/plotly" in address]
            drawn += len(bundles)
            if len(asked) > MOST_REQUESTS or len(bundles) > 1:
                heavy[path] = sorted(asked)
    assert heavy == {}
    assert drawn, "no page of these has a figure"


def _note(asked: set[str], request: Request) -> None:
    if not request.url.startswith("data:"):
        asked.add(request.url)


@pytest.mark.deep
def test_joined_modules_work_together(grid: Grid, window: Any) -> None:
    """Keys of the frame, a tree's rows and a figure: files that import each other."""
    window.sign_in()
    page = window.go(f"/policy/{SLUG}/decay/")
    expect(page.locator("#fig-decay .fig-live.is-shown")).to_be_visible()
    page.keyboard.press("?")
    expect(page.locator("dialog[open]")).to_be_visible()
    page.keyboard.press("Escape")
    page = window.go(f"/policy/{SLUG}/")
    row = page.locator("[role=row][aria-expanded], tr[aria-expanded]").first
    before = row.get_attribute("aria-expanded")
    row.focus()
    page.keyboard.press("ArrowLeft" if before == "true" else "ArrowRight")
    expect(row).not_to_have_attribute("aria-expanded", before or "")
