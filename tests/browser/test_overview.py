"""The overview in a browser: every width and theme, cards that are fetched again, and pins without scripts."""

from __future__ import annotations

import os
import re
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from apps.accounts.models import User
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
from tests.grants import make_grant
from tests.pages.grid import PASSWORD, SLUG, Grid

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
    page.locator(".home-trend").scroll_into_view_if_needed()
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
    expect(page.locator("#recent")).to_be_focused()


def test_a_card_that_fails_again_and_then_comes_keeps_the_focus(grid: Grid, visit: Open) -> None:
    """Its button is hidden while it asks again, and gone once the card has come."""
    window = visit()
    window.sign_in()
    url = window.go("/").locator(".home-trend").get_attribute("hx-get")
    window.page.route(f"**{url}*", lambda route: route.fulfill(status=409))
    page = window.go("/")
    again = page.locator(".home-trend [data-ask-again]")
    again.scroll_into_view_if_needed()
    with page.expect_response(f"**{url}*"):  # pressing it gives it the focus already
        again.press("Enter")
    expect(again).to_be_focused()
    page.unroute(f"**{url}*")
    page.keyboard.press("Enter")
    expect(page.locator(".home-trend")).to_have_attribute("data-come", "")
    expect(page.locator(".home-trend > :first-child")).to_be_focused()
    window.complaints.clear()  # htmx names the answers that failed


@pytest.fixture
def lea(closed_grid: Grid) -> User:
    """She leads atlas, and has no account of her own."""
    cards.last_good.clear()
    user = User.objects.create_user("lea", "", PASSWORD)
    make_grant(user, closed_grid.uid("/atlas"))
    return user


@at_widths
def test_a_lead_sees_who_is_off_target_and_gets_to_the_field(
    closed_grid: Grid, lea: User, visit: Open, width: int
) -> None:
    window = visit(width=width)
    window.sign_in(lea.username)
    page = window.go("/")
    expect(page.locator("#verdict-title")).to_contain_text("atlas")
    bob = page.locator("#children tbody tr", has=page.get_by_role("link", name="bob", exact=True))
    expect(bob.get_by_test_id("balance")).to_have_attribute("data-state", "under")
    window.look()
    bob.get_by_test_id("fix").click()
    expect(page).to_have_url(
        re.compile(rf"/n/{closed_grid.uid('/atlas')}/atlas/\?panel=shares&focus={closed_grid.uid('/atlas/bob')}$")
    )
    expect(page.locator("#shares")).to_be_focused()
    expect(page.locator("#panel-title")).to_contain_text("bob")


def test_the_figure_follows_the_page_and_can_be_asked_for_again(lived: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    window.page.route("**/_deviation*", lambda route: route.abort())
    page = window.go("/")
    trend = page.locator(".home-trend")
    trend.scroll_into_view_if_needed()
    again = trend.get_by_role("button")
    expect(again).to_be_visible()
    page.unroute("**/_deviation*")
    again.click()
    expect(page.locator("#fig-deviation .fig-plot")).to_be_visible()
    window.complaints.clear()  # of what the test cut off


@pytest.mark.deep
def test_a_level_is_chosen_without_scripts(closed_grid: Grid, lea: User, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in(lea.username)
    page = window.go("/")
    page.select_option("#level", label="All of SweGrid")
    page.locator("#level-form button").click()
    expect(page.locator("#children tbody tr")).to_have_count(1)
    expect(page.locator(".home-trend a")).to_be_visible()


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
    expect(page.locator("#pins")).to_have_count(0)
