"""The federation's pages with the keyboard alone, without scripts, in both themes, wide and narrow."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.conf import LazySettings
from playwright.sync_api import expect

from apps.accounts.actor import SYSTEM
from apps.core import clock
from apps.federation.fetch_schedule import request_fetch
from apps.federation.models import Mount
from apps.policies.publishing.direct import publish_operations
from apps.runs.services import work_run_now
from tests.browser.conftest import Open, at_widths
from tests.browser.hands import tab_to
from tests.federation.other_side import KEY, OtherSide, projects, serving
from tests.federation.worlds import mount_side
from tests.pages.grid import SLUG, Grid


@pytest.fixture
def side(grid: Grid, settings: LazySettings) -> Iterator[OtherSide]:
    """A VO that publishes, and an entry of ours for it."""
    add = {"op": "add", "parent": "/", "name": "vo-a", "kind": "vo", "shares": 10}
    publish_operations(policy_slug=SLUG, operations=[add], reason="granted", at=clock.now(), actor=SYSTEM)
    settings.FAIRSHARE_ISSUER = "site.example"
    with serving(OtherSide(at=clock.now().replace(microsecond=0))) as found:
        settings.FAIRSHARE_OUTBOUND_ALLOW = [f"127.0.0.1:{found.port}"]
        found.publish()
        yield found


@pytest.fixture
def mount(side: OtherSide) -> Mount:
    """Its first version is applied, its second is held."""
    at = clock.now()
    made = mount_side(side, "/vo-a", at=at)
    work_run_now(request_fetch(made, at=at).pk)
    side.publish(projects(90))
    work_run_now(request_fetch(made, at=at).pk)
    made.refresh_from_db()
    return made


@pytest.mark.deep
def test_a_mount_is_created_by_keyboard(side: OtherSide, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go("/federation/")
    tab_to(page, "main a.btn.primary")
    page.keyboard.press("Enter")
    expect(page.locator("[data-testid=mount-step]")).to_have_attribute("data-key", "address")
    tab_to(page, "#id_url")
    page.keyboard.type(side.url)
    page.keyboard.press("Enter")
    expect(page.locator("[data-testid=mount-step]")).to_have_attribute("data-key", "key")
    expect(page.locator("h1")).to_contain_text("vo-a.example")
    window.look()
    tab_to(page, "#id_fingerprint")
    page.keyboard.type(" ".join(KEY.public.groups))
    tab_to(page, "button[value=key]")
    page.keyboard.press("Enter")
    expect(page.locator("[data-testid=mount-step]")).to_have_attribute("data-key", "place")
    expect(page.locator("h1")).to_contain_text("vo-a.example")
    window.look()
    tab_to(page, "#id_entry")
    page.keyboard.type("/vo-a")
    tab_to(page, "#id_reason")
    page.keyboard.type("We granted it.")
    tab_to(page, "button[value=place]")
    page.keyboard.press("Enter")
    expect(page.locator("#verdict")).to_have_attribute("data-key", "nothing_yet")
    expect(page.locator("#verdict")).to_contain_text("vo-a.example")
    assert Mount.objects.get().publication == "vo-a"


@pytest.mark.deep
def test_a_mount_is_created_without_scripts_and_keeps_input(side: OtherSide, visit: Open) -> None:
    window = visit(width=390, scripts=False)
    window.sign_in()
    page = window.go("/federation/mount/")
    page.fill("#id_url", side.url.replace(".fairshare", ""))
    side.status = 404
    page.click("main form button[type=submit]")
    assert "404" in page.locator("#id_url_error").inner_text()
    side.status = 200
    page.fill("#id_url", side.url)
    page.click("main form button[type=submit]")
    page.click("button[value=key]")
    expect(page.locator("#id_fingerprint_error")).to_be_visible()
    expect(page.locator("[data-testid=mount-step]")).to_have_attribute("data-key", "key")
    page.check("#id_compared")
    page.click("button[value=key]")
    page.fill("#id_entry", "/nowhere")
    page.fill("#id_reason", "We granted it.")
    page.click("button[value=place]")
    assert "/nowhere" in page.locator("#id_entry_error").inner_text()
    assert page.input_value("#id_reason") == "We granted it."
    page.fill("#id_entry", "/vo-a")
    page.click("button[value=place]")
    assert page.get_attribute("#verdict", "data-key") == "nothing_yet"
    assert "vo-a.example" in page.locator("#verdict").inner_text()
    window.look()


@pytest.mark.deep
@pytest.mark.timeout(300)
@at_widths
def test_each_page_is_accessible_in_both_themes(mount: Mount, grid: Grid, visit: Open, width: int) -> None:
    at, window = clock.now(), visit(width=width)
    window.sign_in()
    pages = ("/federation/", *(f"/federation/mounts/{mount.pk}/{part}" for part in ("", "fetches/", "difference/")))
    for path in (*pages, f"/policy/{SLUG}/"):
        window.go(path)
        window.look()
    Mount.objects.filter(pk=mount.pk).update(
        state="blocked",
        good_at=at - timedelta(hours=40),
        error="The document is signed with another key than the one that is trusted: 04aae81fc6d73390…",
    )
    for path in pages[:2]:
        window.go(path)
        window.look()


def test_the_list_refreshes_in_place_until_paused(mount: Mount, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go("/federation/")
    link = page.locator("#peers th a").first
    link.focus()
    Mount.objects.filter(pk=mount.pk).update(state="paused")
    page.evaluate("htmx.ajax('GET', '/federation/_peers', {target: '#peers', swap: 'morph:outerHTML'})")
    expect(page.locator("#peers [data-testid=standing]").first).to_have_attribute("data-state", "paused")
    assert page.evaluate("document.activeElement.textContent") == "vo-a.example", "the focus stays where it was"
    page.click("[data-pause]")
    expect(page.locator("[data-pause]")).to_have_attribute("aria-pressed", "true")


def test_a_refused_action_focuses_its_field(mount: Mount, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go(f"/federation/mounts/{mount.pk}/")
    page.click("button[value=pause]")  # without a reason
    expect(page.locator("#do [name=reason]").first).to_be_focused()
