"""A committee pack in a browser: its PDF is opened and has the numbers of REST; a link shows it without a sign-in."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from apps.core import clock
from tests.browser.conftest import Open
from tests.dashboard.grid import SLUG, Grid
from tests.packs.pdf_text import PdfText


@pytest.mark.deep
def test_a_pack_is_opened_as_pdf_and_by_link(grid: Grid, visit: Open, tmp_path: Path) -> None:
    window = visit()
    window.sign_in()
    month = f"{clock.now():%Y-%m}"
    page = window.go(f"/policy/{SLUG}/pack/{grid.uid('/')}/?from={month}&to={month}")
    answer = page.request.get(f"{window.base}/api/v1/policies/{SLUG}/pack?from={month}&to={month}").json()
    with page.expect_download() as download:
        page.click("[data-testid=pack-pdf]")
    download.value.save_as(tmp_path / "pack.pdf")
    words = PdfText((tmp_path / "pack.pdf").read_bytes()).words
    rows = [row for row in answer["pack"]["allocations"]["rows"] if row["delivered_core_h"]]
    assert rows
    for row in rows:
        at = words.index("Whole policy" if row["path"] == "/" else row["path"], words.index("Allocated"))
        assert words[at + 3] == f"{row['delivered_core_h']:,.0f}"
    window.follow("button[value=share]")
    address = page.inner_text(".pack-address")
    stranger = visit().go(address.removeprefix(window.base))
    expect(stranger.locator("[data-testid=pack-section]")).to_have_count(5)
    expect(stranger.locator("nav")).to_have_count(0)
