"""The browsable description of the API, under the same strict policy as every page."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect

from tests.browser.conftest import Open


def test_the_description_is_drawn_and_opens_without_breaking_the_policy(transactional_db: Any, visit: Open) -> None:
    page = visit().go("/api/v1/docs")
    page.wait_for_selector("body[data-done]")
    operations = page.locator(".opblock-summary")
    expect(operations.nth(100)).to_be_attached()  # more than a hundred, drawn one after the other
    operations.first.click()
    expect(page.locator(".opblock-body").first).to_be_visible()
