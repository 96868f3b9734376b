"""A list that its page shows whole: sorted, narrowed by a word, saved as CSV; it stays so when numbers come."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from apps.usage.models import Source
from tests.browser.conftest import Open
from tests.browser.test_live import recompute_with
from tests.instants import AT
from tests.pages.grid import Grid

PAGE = "/usage/sources/"
LIST = "section[aria-labelledby=sources]"


@pytest.fixture
def many(grid: Grid) -> Grid:
    Source.objects.bulk_create([Source(slug=f"s{n}", name=f"Site {n}", created_at=AT) for n in range(1, 13)])
    return grid


def names(page: Page) -> list[str]:
    rows = page.locator(f"{LIST} tbody tr:not(.is-filtered) th a").all_inner_texts()
    return [name for name in rows if name.startswith("Site")]


def in_order(*, descending: bool = False) -> list[str]:
    return [f"Site {n}" for n in sorted(range(1, 13), reverse=descending)]


def test_a_column_title_sorts_ascending_descending_and_resets(many: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go(PAGE)
    served = names(page)
    title = page.locator(f"{LIST} th:has(.sort)").first
    title.locator(".sort").press("Enter")
    expect(title).to_have_attribute("aria-sort", "ascending")
    assert names(page) == in_order(), "numbers in names are compared as numbers"
    title.locator(".sort").press("Enter")
    expect(title).to_have_attribute("aria-sort", "descending")
    assert names(page) == in_order(descending=True)
    title.locator(".sort").press("Enter")
    expect(title).not_to_have_attribute("aria-sort", "descending")
    assert names(page) == served
    window.look()


def test_the_csv_contains_the_shown_rows(many: Grid, visit: Open, tmp_path: Path) -> None:
    Source.objects.filter(slug="s1").update(name="=Site, 1")
    window = visit()
    window.sign_in()
    page = window.go(PAGE)
    page.locator(f"{LIST} th .sort").first.click()
    page.fill(f"{LIST} input[type=search]", "SITE")
    first = page.locator(f"{LIST} tbody tr:not(.is-filtered) td.num").first
    first.evaluate("cell => { cell.textContent = '1,234.5'; }")
    expect(page.locator(f"{LIST} .list-tools [role=status]")).to_have_text(
        f"12 / {page.locator(f'{LIST} tbody tr').count()}"
    )
    with page.expect_download() as waiting:
        page.click(f"{LIST} .list-tools button")
    waiting.value.save_as(tmp_path / "list.csv")
    rows = list(csv.reader((tmp_path / "list.csv").read_text(encoding="utf-8").splitlines()))
    assert rows[0][0] == page.locator(f"{LIST} th").first.inner_text()
    assert rows[1][0].startswith("'=Site, 1"), "no spreadsheet computes it"
    assert "1234.5" in rows[1], "no comma that a spreadsheet may read as decimal"
    assert len(rows) == 13
    assert {len(row) for row in rows} == {len(rows[0])}


def test_order_and_filter_stay_when_numbers_update(many: Grid, visit: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    window = visit(is_kept=False)
    window.sign_in()
    page = window.page
    page.clock.install(time=AT)
    window.go(PAGE)
    page.locator(f"{LIST} th .sort").first.click()
    page.locator(f"{LIST} th .sort").first.click()
    page.fill(f"{LIST} input[type=search]", "site 1")
    kept = ["Site 12", "Site 11", "Site 10", "Site 1"]
    assert names(page) == kept
    # The clock runs on: a slow recompute may be fetched before the test moves the clock.
    with page.expect_response(lambda answer: answer.url.endswith(PAGE) and answer.request.resource_type == "fetch"):
        recompute_with(many, 4, 20, monkeypatch)
        page.clock.run_for(6_000)
    expect(page.locator(f"{LIST} th[aria-sort=descending]")).to_have_count(1)
    assert names(page) == kept
    expect(page.locator(f"{LIST} input[type=search]")).to_be_focused()
    expect(page.locator(f"{LIST} .list-tools")).to_have_count(1)
