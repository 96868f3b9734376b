"""Cards of My priority in a browser: after a job, and a card that fails."""

from __future__ import annotations

from datetime import timedelta

import pytest
from playwright.sync_api import expect

from apps.accounts.models import Account
from apps.core import clock
from apps.usage.models import Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from tests.browser.conftest import Open, come
from tests.browser.test_my_priority import OWN_USAGE, open_more
from tests.instants import AT
from tests.pages.grid import Grid


@pytest.mark.deep
def test_a_typed_job_size_changes_ranks_and_keeps_the_focus(grid: Grid, visit: Open) -> None:
    Account.objects.filter(user_name="bob").update(person=grid.alice)
    window = visit(width=390)
    window.sign_in("alice")
    page = window.go("/me/priority/")
    first = page.locator("#submit [data-testid=after-job]").first
    before = first.inner_text()
    page.fill("#submit-core-h", "900000")
    expect(first).not_to_have_text(before)
    expect(page.locator("#submit-core-h")).to_be_focused()
    page.fill("#submit-core-h", "many")
    expect(page.locator("#submit-problem")).to_be_visible()
    expect(page.locator("#submit-core-h")).to_have_value("many")
    window.look()


def test_a_card_that_fails_says_so_in_its_place_and_is_asked_for_again(grid: Grid, visit: Open) -> None:
    window = visit(is_kept=False)
    window.sign_in("alice")
    page, card = window.page, "#later-forecast-levels"
    page.route("**/_forecast_levels?*", lambda route: route.fulfill(status=503, body="busy"))
    page.route("**/_submit?*", lambda route: route.abort())
    window.go("/me/priority/")
    open_more(page, "forecast-levels")
    for place in (card, "#later-submit"):
        expect(page.locator(f"{place} .failed")).to_be_visible()
        expect(page.locator(f"{place} .wait")).to_be_hidden()
    page.unroute_all()
    page.click(f"{card} [data-ask-again]")
    expect(page.locator("#forecast-share")).to_be_visible()
    expect(page.locator("#later-submit .failed")).to_be_visible()
    window.complaints.clear()  # the console names both failures


@pytest.mark.deep
def test_a_recompute_appears_automatically_in_heading_and_figures(
    grid: Grid, visit: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = visit(is_kept=False)
    window.sign_in("alice")
    page = window.page
    page.clock.install(time=AT)
    window.go("/me/priority/")
    figure = "#fig-forecast"
    come(page, "#later-forecast")
    open_more(page, "details")
    come(page, "#later-details")
    page.locator(figure).scroll_into_view_if_needed()
    page.wait_for_selector(f"{figure}[data-drawn='']")
    usage, tag = page.inner_text(OWN_USAGE), page.get_attribute(figure, "data-tag")
    later = AT + timedelta(minutes=20)
    monkeypatch.setenv(clock.VARIABLE, later.isoformat())
    row = RecordRow(
        job="later",
        user="alice",
        group="atlas",
        start_at=AT - timedelta(hours=5),
        end_at=AT - timedelta(hours=3),
        cpus=4_000,
    )
    ingest_batch(source=Source.objects.get(slug="cluster-a"), rows=[row], at=later)
    grid.recompute()
    page.clock.run_for(6_000)
    page.wait_for_selector(f"{figure}:not([data-tag='{tag}'])")
    expect(page.locator(OWN_USAGE)).not_to_have_text(usage)
