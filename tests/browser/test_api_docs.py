"""The browsable description of the API, under the same strict policy as every page."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open


@pytest.mark.deep
def test_the_api_docs_render_under_the_content_security_policy(transactional_db: Any, visit: Open) -> None:
    page = visit().go("/api/v1/docs")
    page.wait_for_selector("body[data-done]")
    operations = page.locator(".opblock-summary")
    expect(operations.nth(5)).to_be_visible()  # a long description is drawn as far as the window goes
    operations.first.click()
    expect(page.locator(".opblock-body").first).to_be_visible()
    first = operations.first.inner_text()
    page.evaluate("document.activeElement.blur()")  # Swagger UI takes far operations out of the page, focus and all
    page.mouse.wheel(0, 20_000)
    expect(operations.first).not_to_have_text(first)
    expect(operations.nth(2)).to_be_visible()
