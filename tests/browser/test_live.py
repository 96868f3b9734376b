"""Pages refresh automatically: numbers in place, nothing jumps, and no request while the page is hidden."""

from __future__ import annotations

from datetime import timedelta

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.actor import COMMAND, Actor
from apps.core import clock
from apps.policies.publishing.direct import publish_operations
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set
from apps.usage.models import Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from tests.browser.conftest import NARROW, WIDE, Open, settled
from tests.browser.test_my_priority import shoot
from tests.instants import AT
from tests.pages.grid import SLUG, Grid

TREE = f"/policy/{SLUG}/"
HIDE = """on => {
    Object.defineProperty(document, "hidden", { value: on, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""

# Square pixels of the bar of updates that are on the side panel.
OVERLAP = """(() => {
    const [bar, panel] = ["live-bar", "panel"].map((id) => document.getElementById(id).getBoundingClientRect());
    return Math.max(0, Math.min(bar.right, panel.right) - Math.max(bar.left, panel.left))
        * Math.max(0, Math.min(bar.bottom, panel.bottom) - Math.max(bar.top, panel.top));
})()"""


def recompute_with(grid: Grid, cores: int, at_min: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day of alice's, and priorities computed from it."""
    at = AT + timedelta(minutes=at_min)
    monkeypatch.setenv(clock.VARIABLE, at.isoformat())
    row = RecordRow(
        job=f"more-{at_min}",
        user="alice",
        group="atlas",
        start_at=AT - timedelta(hours=24),
        end_at=AT - timedelta(hours=1),
        cpus=cores,
    )
    ingest_batch(source=Source.objects.get(slug="cluster-a"), rows=[row], at=at)
    grid.recompute()


def actual(page: Page, grid: Grid, path: str) -> str:
    return page.locator(f"#e-{grid.uid(path)} .c-actual .actual > span").inner_text()


def test_the_tree_updates_after_a_recompute_and_keeps_focus_and_scroll(
    grid: Grid, visit: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = visit(is_kept=False)
    window.sign_in()
    page = window.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/live") else None)
    page.clock.install(time=AT)
    window.go(TREE)
    row = page.locator(f"#e-{grid.uid('/atlas/alice')}")
    row.focus()
    row.evaluate("row => { row.dataset.mine = 'the same node'; }")
    before, box = actual(page, grid, "/atlas"), row.bounding_box()
    with page.expect_response(lambda answer: answer.url.endswith("/live")) as unchanged:
        page.clock.run_for(6_000)
    assert unchanged.value.status == 304

    recompute_with(grid, 5_000, 20, monkeypatch)
    page.clock.run_for(6_000)
    cell = page.locator(f"#e-{grid.uid('/atlas')} .c-actual .actual > span")
    expect(cell).not_to_have_text(before)
    expect(page.locator("#fresh .fresh b").first).to_contain_text("12:20")
    expect(row).to_be_focused()
    expect(row).to_have_attribute("data-mine", "the same node")
    assert row.bounding_box() == box

    page.keyboard.press("z")
    bar = page.locator("#live-bar")
    expect(bar).to_contain_text("Paused at")
    n_asked, now = len(asked), cell.inner_text()
    recompute_with(grid, 9_000, 40, monkeypatch)
    page.clock.run_for(20_000)
    assert len(asked) == n_asked
    assert cell.inner_text() == now
    window.look()
    page.keyboard.press("z")
    expect(cell).not_to_have_text(now)
    expect(bar).to_be_hidden()

    n_asked = len(asked)
    page.evaluate(HIDE, True)
    page.clock.run_for(60_000)
    assert len(asked) == n_asked
    with page.expect_response(lambda answer: answer.url.endswith("/live")):
        page.evaluate(HIDE, False)

    page.route("**/live", lambda route: route.abort())
    page.clock.run_for(6_000)
    expect(bar).to_contain_text("Not refreshed since")
    page.unroute("**/live")
    page.click("[data-live-retry]")
    expect(bar).to_be_hidden()
    window.complaints.clear()  # the console reports the request that failed

    page.context.clear_cookies()
    page.clock.run_for(6_000)
    expect(bar).to_contain_text("You’ve been signed out")


@pytest.mark.deep
def test_a_publication_is_followed_to_its_recompute_and_undone(
    grid: Grid, visit: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = visit(is_kept=False)
    window.sign_in()
    page = window.page
    page.clock.install(time=AT)
    actor = Actor(user=grid.admin, via="page")
    draft = make_change_set(
        policy_slug=SLUG,
        new=NewChangeSet(operations=[{"op": "set_shares", "entry": "/biomed", "shares": 900}], reason="New runs."),
        at=clock.now(),
        actor=actor,
    )
    window.go(f"/changes/{draft.pk}/")
    window.follow("#decide-publish")
    strip, heading = page.locator("#followup"), page.locator("[data-followup-heading]")
    expect(strip).to_have_attribute("data-state", "waiting")
    expect(heading).to_contain_text("Priorities follow in")
    left = int(page.locator("[role=timer]").inner_text().split("\u00a0")[0])
    page.clock.run_for(3_000)
    expect(page.locator("[role=timer]")).not_to_have_text(f"{left}\u00a0s")
    window.look()
    height = page.locator(".follow").bounding_box()
    list_at = page.locator("#moved").bounding_box()

    monkeypatch.setenv(clock.VARIABLE, (AT + timedelta(minutes=1)).isoformat())
    grid.recompute()
    page.evaluate("() => { window.sameDocument = true; }")
    page.clock.run_for(3_000)
    expect(strip).to_have_attribute("data-state", "done")
    expect(heading).to_contain_text("Priorities updated to revision 3")
    expect(page.locator("#fresh")).to_contain_text("Rev 3")
    assert page.evaluate("() => window.sameDocument")
    assert page.locator(".follow").bounding_box() == height
    list_now = page.locator("#moved").bounding_box()
    assert list_at is not None
    assert list_now is not None
    assert list_now["y"] == list_at["y"]
    group = page.locator("[data-testid=moved-group]").first
    expect(group).to_contain_text("2 down")
    group.click()
    expect(page.locator("[data-testid=moved-person]").first).to_be_visible()
    window.look()

    page.click("[popovertarget=undo-box]")
    window.follow("#undo-box button[type=submit]")
    expect(strip).to_have_attribute("data-state", "waiting")
    expect(heading).to_contain_text("Revision 4 is published")


@pytest.mark.deep
def test_an_entry_updates_while_its_shares_are_typed(grid: Grid, visit: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    window = visit(is_kept=False)
    window.sign_in()
    page = window.page
    page.clock.install(time=AT)
    window.go(f"/policy/{SLUG}/n/{grid.uid('/atlas')}/atlas/")
    used = page.locator("#actual")
    before = used.inner_text()
    page.click("#change-shares")
    page.fill("#shares", "61.5")
    expect(page.locator("#becomes")).not_to_be_empty()
    publish_operations(
        policy_slug=SLUG,
        operations=[{"op": "set_shares", "entry": "/biomed", "shares": 300}],
        reason="More for biomed.",
        at=clock.now(),
        actor=COMMAND,
    )
    recompute_with(grid, 5_000, 20, monkeypatch)
    page.clock.run_for(6_000)
    expect(used).not_to_have_text(before)
    expect(page.locator("#shares")).to_have_value("61.5")
    expect(page.locator("#shares")).to_be_focused()
    bar = page.locator("#live-bar")
    expect(bar).to_contain_text("published revision 3")
    expect(bar).to_contain_text("More for biomed.")
    for width in (NARROW, 1024, WIDE):
        window.resize(width)
        assert settled(page, OVERLAP, most=0) == 0, width
        expect(page.locator("#publish")).to_be_in_viewport(ratio=1)
        shoot(window, f"bar-beside-panel-{width}")
    window.look()
    page.click("[data-live-close]")
    expect(bar).to_be_hidden()
