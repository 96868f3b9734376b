"""A goal in a browser: asked beside the field of an entry's shares, answered with options, one added to a draft."""

from __future__ import annotations

from datetime import timedelta

import pytest
from playwright.sync_api import expect

from apps.policies.models import ChangeSet
from tests.browser.conftest import Open
from tests.pages.grid import SLUG, Grid


@pytest.mark.deep
def test_a_goal_becomes_a_draft(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go(f"/policy/{SLUG}/n/{grid.uid('/biomed')}/biomed/")
    page.click("#change-shares")
    window.follow("#panel a[href*='/edit/goal/']")
    page.fill("#id_by", (grid.at + timedelta(days=7)).date().isoformat())
    page.fill("#id_most_lost", "0")
    window.follow("form[method=get] button[type=submit]")
    expect(page.locator("#solution")).to_have_attribute("data-possible", "no")
    page.fill("#id_most_lost", "30")
    window.follow("form[method=get] button[type=submit]")
    expect(page.locator("#solution")).to_have_attribute("data-possible", "yes")
    assert page.locator("[data-testid=option]").count() >= 2
    window.follow("[data-lever=shares] button")
    draft = ChangeSet.objects.get(state=ChangeSet.State.DRAFT)
    assert page.url.endswith(f"/changes/{draft.pk}/edit/?entry={grid.uid('/biomed')}")
    window.follow("#panel a[href*='/edit/goal/']")
    expect(page.locator("#ask [name=draft]")).to_have_value(str(draft.pk))
    (operation,) = draft.operations
    assert operation["entry"] == str(grid.uid("/biomed"))
