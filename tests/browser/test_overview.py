"""The overview in a browser: every width and theme, cards that are fetched again, and pins without scripts."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from apps.core import clock
from apps.pages.overview import cards, presenters
from apps.policies.models import Pin, Policy
from apps.runs.services import work_run_now
from apps.series.runs import enqueue_series_build
from apps.usage.models import Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from tests.browser.conftest import Open, at_widths
from tests.browser.hands import Keys
from tests.pages.grid import SLUG, Grid

SHOTS = os.environ.get("SHOTS", "")


@pytest.fixture
def lived(grid: Grid) -> Grid:
    """A month of usage, its series, a pin, and a user without an entry."""
    now = clock.now()
    source = Source.objects.get(slug="cluster-a")
    rows = [
        RecordRow(
            job=f"{vo}{n}",
            user=user,
            group=vo,
            start_at=now - timedelta(days=n, hours=5),
            end_at=now - timedelta(days=n, hours=4),
            cpus=cpus,
        )
        for n in range(1, 32)
        for vo, user, cpus in (("atlas", "alice", 300), ("biomed", "carol", 90 + 9 * n), ("cms", "erin", n))
    ]
    rows.append(
        RecordRow(
            job="x",
            user="stranger",
            group="nowhere",
            start_at=now - timedelta(hours=9),
            end_at=now - timedelta(hours=8),
            cpus=40,
        )
    )
    ingest_batch(source=source, rows=rows, at=now)
    grid.recompute()
    work_run_now(enqueue_series_build(Policy.objects.get(slug=SLUG), at=now).pk)
    for path in ("/atlas/alice", "/biomed"):
        Pin.objects.create(
            user=grid.admin, policy=Policy.objects.get(slug=SLUG), entry_uid=grid.uid(path), created_at=now
        )
    return grid


@pytest.mark.deep
@at_widths
def test_the_overview_is_accessible_and_fits(lived: Grid, visit: Open, width: int) -> None:
    window = visit(width=width)
    window.sign_in()
    page = window.go("/")
    page.locator("#fig-deviation").scroll_into_view_if_needed()
    expect(page.locator("#fig-deviation .fig-wait")).to_have_count(0)
    expect(page.locator(".broken")).to_have_count(0)
    page.locator("#deviation summary").click()
    window.look()
    if SHOTS:
        page.screenshot(path=f"{SHOTS}/overview-{width}.png", full_page=True)


def test_a_failed_card_is_retried_alone(grid: Grid, visit: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    window = visit()
    window.sign_in()

    def fail(desk: object) -> None:
        raise RuntimeError("broken")

    with monkeypatch.context() as patch:
        cards.last_good.clear()
        patch.setattr(presenters, "_recent", fail)
        page = window.go("/")
        expect(page.locator("#recent .broken")).to_be_visible()
        expect(page.locator("#children")).to_contain_text("biomed")
        assert window.axe() == []
        if SHOTS:
            page.screenshot(path=f"{SHOTS}/overview-broken.png", full_page=True)
    page.locator("#recent .broken a").click()
    expect(page.locator("#recent")).to_contain_text("First division.")
    expect(page.locator(".broken")).to_have_count(0)


@pytest.mark.deep
def test_pins_are_set_and_removed_by_keyboard_and_without_scripts(grid: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in()
    page, keys = window.go(f"/policy/{SLUG}/n/{grid.uid('/cms')}/cms/"), Keys()
    keys.press(page, "[name=pinned][value='1']")
    expect(page.locator("[name=pinned][value='0']")).to_be_visible()
    page = window.go("/")
    expect(page.locator("#pins")).to_contain_text("/cms")
    keys.press(page, "#pins button")
    expect(page.locator("#pins")).not_to_contain_text("/cms")
