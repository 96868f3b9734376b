"""A committee pack in a browser: printed it has the numbers of REST, and all of it; a link shows it to a stranger."""

from __future__ import annotations

import base64
from typing import Any

from playwright.sync_api import Page, expect

from apps.contrib.allocations.pack_views import html_file
from apps.contrib.allocations.packs.links import Sealed
from apps.core import clock
from tests.browser.conftest import Open
from tests.contrib.allocations.packs.pdf_text import read_pages, without_spaces
from tests.pages.grid import SLUG, Grid

TEXT_WIDTH = 680  # pixels between the margins of A4
TOO_WIDE = "all => all.filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.outerHTML.slice(0, 99))"
N_GROUPS = 120
LONG = "/a-faculty-with-a-long-name/an-institute-with-a-long-name/a-group-with-a-long-name"


def print_page(page: Page) -> list[str]:
    """The text of each sheet of A4, as the browser's own command prints it."""
    asked = {"paperWidth": 8.27, "paperHeight": 11.69}
    return read_pages(base64.b64decode(page.context.new_cdp_session(page).send("Page.printToPDF", asked)["data"]))


def assert_nothing_is_cut(page: Page) -> None:
    page.emulate_media(media="print")
    page.set_viewport_size({"width": TEXT_WIDTH, "height": 900})
    assert page.eval_on_selector_all(".pack-page, .pack-page *:not(svg *, code)", TOO_WIDE) == []
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_a_pack_is_printed_and_opened_by_link(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    month = f"{clock.now():%Y-%m}"
    page = window.go(f"/policy/{SLUG}/pack/{grid.uid('/')}/?from={month}&to={month}")
    answer = page.request.get(f"{window.base}/api/v1/policies/{SLUG}/pack?from={month}&to={month}").json()
    page.evaluate("() => { document.documentElement.dataset.theme = 'dark'; }")
    expect(page.locator("[data-print]")).to_be_visible()
    sheets = print_page(page)
    rows = [row for row in answer["pack"]["allocations"]["rows"] if row["delivered_core_h"]]
    assert rows
    for row in rows:
        label = "Wholepolicy" if row["path"] == "/" else row["path"]
        assert f"{label}––{row['delivered_core_h']:,.0f}–" in "".join(sheets)
    assert sheets[0].startswith(f"1/{len(sheets)}")
    assert "Sharebylink" not in "".join(sheets), "forms and navigation aren’t printed"
    page.locator("button[value=share]").click()
    address = page.inner_text(".pack-address")
    assert_nothing_is_cut(page)
    stranger = visit().go(address.removeprefix(window.base))
    expect(stranger.locator("[data-testid=pack-section]")).to_have_count(5)
    expect(stranger.locator("nav")).to_have_count(0)
    sheets = print_page(stranger)
    assert "".join(sheets).count(stranger.locator("code").inner_text()) == 1
    assert "JSONPrint" not in "".join(sheets), "links aren’t printed"
    assert_nothing_is_cut(stranger)


def test_a_long_pack_is_printed_whole(visit: Open) -> None:
    names = ("entitled", "used", "lent", "missed", "unclear", "borrowed")
    balance: list[dict[str, Any]] = [
        {"path": f"{LONG}-{n}", "missing_days": 0, **{f"{name}_core_h": 1_234_567.0 + n for name in names}}
        for n in range(N_GROUPS)
    ]
    document = {
        **{"policy_name": "Grid", "revision": 7, "name": "Grid", "entry": "/", "n_people_left_out": 0},
        **{"from": "2026-10-01", "to": "2026-10-31", "made_at": "2026-11-20T12:00:00Z", "zone": "Europe/Stockholm"},
        **{"allocations": {"rows": [], "is_cut": False}, "balance": balance, "held_back": [], "expiring": []},
        "changes": [
            {
                "revision": 7,
                "at": "2026-10-20T12:00:00Z",
                "author": "eva",
                "reason": "Łódź → Физика " * 60,
                "entries": [],
            }
        ],
    }
    page = visit().page
    page.set_content(html_file(Sealed(document, b"", "0" * 64, "1" * 64)))
    sheets = print_page(page)
    whole = "".join(sheets)
    assert len(sheets) > 4
    for n in range(N_GROUPS):
        assert f"{LONG}-{n}{f'{1_234_567 + n:,}' * 6}" in whole
    assert without_spaces("Łódź → Физика " * 60) in whole
    titles = "EntryEntitledUsedLentMissedUnclearBorrowed"
    assert all(titles in sheet for sheet in sheets if LONG in sheet.partition("Lentandborrowed")[2] or LONG in sheet)
    assert_nothing_is_cut(page)
