"""The log in a real browser: read, narrowed, opened row by row; with the keyboard, and without script."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from apps.accounts import audit_log as audit
from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.audit_log import check_chain
from apps.accounts.models import AuditEvent, User
from apps.core import clock
from apps.policies.access.authority import GrantTerms
from apps.policies.access.delegation import create_grant
from tests.browser.conftest import Open, in_windows_of_all
from tests.grants import make_grant
from tests.pages.grid import SLUG, Grid
from tests.web.shell.test_time_travel import publish

PAGE = "/audit/"


@pytest.fixture
def log(grid: Grid) -> Grid:
    """What was published, given and refused; the last of it by one request, and all of it checked."""
    now, eva = clock.now(), Actor(user=grid.admin, via="page", request_id="0f3a", address="192.0.2.7")
    shares = {"op": "set_shares", "entry": "/atlas", "shares": 77}
    publish(grid, shares, {"op": "set_policy", "settings": {"fallback_factor": 0.25}}, reason="Atlas bought nodes.")
    make_grant(User.objects.create_user("maria"), grid.uid("/cms"), at=now)
    create_grant(
        policy_slug=SLUG,
        entry_uid=grid.uid("/atlas"),
        terms=GrantTerms(username="alice", role="lead", reason="leads atlas", expires_at=now + timedelta(days=90)),
        at=now,
        actor=eva,
    )
    audit.record(
        actor=SYSTEM, verb="usage.imported", at=now, subject="cluster-a", details={"n_new": 4, "n_rejected": 1}
    )
    audit.record(
        actor=Actor(user=grid.alice, via="api"),
        verb="policy.published",
        at=now,
        policy_slug=SLUG,
        outcome="refused",
        subject="Change set 9",
        entry_uid=grid.uid("/biomed"),
        reason="You may not divide biomed.",
    )
    publish(grid, {"op": "set_shares", "entry": "/cms/dave", "shares": 3}, reason="Dave needs more.\nUntil May.")
    check_chain(at=now)
    return grid


@pytest.mark.deep
def test_the_log_is_filtered_and_opened_by_keyboard_and_focus_stays(log: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go(PAGE)
    page.focus("#q")
    page.keyboard.type("nodes")
    expect(page.locator("#rows")).not_to_contain_text("cluster-a")
    expect(page.locator("#rows")).to_contain_text("Atlas bought nodes.")
    expect(page.locator("#q")).to_be_focused()
    expect(page).to_have_url(f"{window.base}{PAGE}?q=nodes")
    expect(page.locator("#exports a").first).to_have_attribute("href", f"{PAGE}export.csv?q=nodes")
    page.keyboard.press("Enter")
    expect(page.locator("#q")).to_be_focused()

    row = AuditEvent.objects.get(verb="policy.published", reason="Atlas bought nodes.").pk
    published = page.locator(f"#row-{row} .actions a[href*='row={row}']")
    published.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#chosen")).to_contain_text(re.compile(r"atlas\b.*\b60\b", re.DOTALL))
    expect(page.locator("#chosen")).to_contain_text("policy.published")
    expect(published).to_be_focused()

    page.fill("#q", "")
    page.select_option("#outcome", "refused")
    expect(page.locator("#rows li")).to_have_count(1)
    expect(page.locator("#rows li")).to_contain_text(re.compile("Alice Berg.*Change set 9", re.DOTALL))
    page.select_option("#outcome", "")
    page.fill("#entry", "/cms")
    expect(page.locator("#rows")).to_contain_text("Dave needs more.")
    expect(page.locator("#rows")).not_to_contain_text("Atlas bought nodes.")
    page.fill("#entry", "/nowhere")
    expect(page.locator("#rows .empty")).to_be_visible()
    expect(page.locator("#rows li")).to_have_count(0)
    page.locator(f"main a[href='{PAGE}']:visible").first.click()
    expect(page.locator("#rows")).to_contain_text("cluster-a")


@pytest.mark.deep
def test_without_scripts_the_log_is_filtered_opened_and_downloaded(log: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in()
    page = window.go(PAGE)
    page.fill("#who", "admin")
    page.select_option("#verb", "policy")
    page.locator("form:has(#who) button[type=submit]").click()
    expect(page.locator("#rows")).to_contain_text("Atlas bought nodes.")
    expect(page.locator("#rows")).not_to_contain_text("Change set 9")
    page.locator("#rows li", has_text="Atlas").locator("a[href*='row=']").click()
    expect(page.locator("#chosen")).to_contain_text(re.compile(r"\b0\.5\b.*\b0\.25\b"))
    expect(page.locator("#who")).to_have_value("admin")
    with page.expect_download() as download:
        page.locator("#exports a[href*='export.csv']").click()
    lines = download.value.path().read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith('"id","at","actor","verb"')
    assert all('"policy.published"' in line for line in lines[1:] if line[:1].isdigit())
    assert any("Atlas bought nodes." in line for line in lines)


@in_windows_of_all
def test_the_page_is_accessible_and_fits(log: Grid, visit: Open, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width)
    row = AuditEvent.objects.get(verb="policy.published", reason="Atlas bought nodes.").pk
    window.sign_in()
    for path in (PAGE, f"{PAGE}?row={row}", f"{PAGE}?entry=/nowhere", f"{PAGE}?q=nothing+like+it"):
        window.go(path)
        assert window.axe() == [], path
        assert window.overflow() <= 0, path
    window.sign_in("maria")
    page = window.go(PAGE)
    expect(page.locator("#rows")).to_contain_text("Dave needs more.")
    expect(page.locator("#rows")).not_to_contain_text("Atlas")
    assert window.axe() == []
