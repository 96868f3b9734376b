"""The REST reference: searched and read in both themes, also without scripts and without an account."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import THEMES, Open, in_windows_of_all

DOCS = "/api/v1/docs"


@pytest.mark.parametrize("theme", THEMES)
def test_the_reference_follows_the_theme(transactional_db: Any, visit: Open, theme: str) -> None:
    window = visit(theme=theme)
    page = window.go(DOCS)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).slice(0, 3).map(Number)")
    assert (sum(ground) / 3 > 128) == (theme == "light"), ground
    window.look()


def test_a_search_narrows_the_list_while_one_types_and_an_operation_opens(transactional_db: Any, visit: Open) -> None:
    window = visit()
    page = window.go(DOCS)
    n = page.locator("[data-testid=operation]").count()
    page.locator("#words").press_sequentially("audit")
    expect(page.locator("[data-testid=operation]")).not_to_have_count(n)
    expect(page).to_have_url(f"{window.base}{DOCS}?q=audit")
    expect(page.locator("#words")).to_be_focused()
    window.follow(f"a[href='{DOCS}/list_audit']")
    expect(page.locator("h1")).to_contain_text("/api/v1/audit")
    window.look()


@in_windows_of_all
def test_the_reference_is_read_without_scripts(transactional_db: Any, visit: Open, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width, scripts=False)
    page = window.go(DOCS)
    page.fill("#words", "waiting jobs")
    window.follow("form[role=search] button")
    expect(page.locator("[data-testid=operation]").first).to_be_visible()
    window.look()
    window.follow("[data-testid=operation] a")
    expect(page.locator("#call")).to_be_visible()
    window.look()
