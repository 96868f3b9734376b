"""A lead boosts a member and asks upward, the manager grants it: by mouse, by keyboard alone, and without scripts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.core import clock
from apps.policies.models import ChangeSet, Policy
from apps.policies.requests.share_requests import RequestTerms, request_shares
from tests.browser.conftest import Open, Visit, in_windows_of_all
from tests.browser.hands import tab_to
from tests.grants import make_grant
from tests.pages.grid import PASSWORD, SLUG, Grid


@pytest.fixture
def people(grid: Grid) -> Grid:
    """alice leads atlas and cms; maria manages the whole."""
    policy = Policy.objects.get(slug=SLUG)
    maria = User.objects.create_user("maria", "", PASSWORD, first_name="Maria", last_name="Hedin")
    for user, path, role in ((grid.alice, "/atlas", "lead"), (grid.alice, "/cms", "lead"), (maria, "/", "manager")):
        make_grant(user, grid.uid(path), role, policy=policy, at=grid.at)
    return grid


def page_of(grid: Grid, path: str = "/atlas") -> str:
    return f"/policy/{SLUG}/group/{grid.uid(path)}/"


def node(grid: Grid, path: str) -> Any:
    tree = grid.tree
    return tree.node(tree.index_of_path(path) or 0)


def _click(page: Page, selector: str) -> None:
    page.click(selector)


def _key(page: Page, selector: str) -> None:
    """Reached and pressed from the top of the page."""
    page.evaluate("document.getElementById('main').focus()")
    tab_to(page, selector)
    page.keyboard.press("Enter")


def _type_by_mouse(page: Page, selector: str, text: str) -> None:
    page.fill(selector, text)


def _type_by_key(page: Page, selector: str, text: str) -> None:
    page.evaluate("document.getElementById('main').focus()")
    tab_to(page, selector)
    page.keyboard.press("Control+a")
    page.keyboard.type(text)


Press = Callable[[Page, str], None]
Write = Callable[[Page, str, str], None]


def boost_ask_and_grant(grid: Grid, visit: Open, press: Press, write: Write, *, scripts: bool) -> None:
    lead, manager = visit(scripts=scripts), visit(scripts=scripts)
    lead.sign_in("alice")
    page = lead.go("/start/")
    assert page.inner_text("h1") == "atlas"
    bob = grid.uid("/atlas/bob")
    press(page, f"#open-{bob}")
    page.wait_for_selector(f"#until-{bob}")
    assert page.input_value(f"#shares-{bob}") == "2"
    write(page, f"#shares-{bob}", "3")
    write(page, "#reason", "Referee runs for the December paper")
    if scripts:
        page.wait_for_selector("#n-changes[data-value='1']")
        page.wait_for_selector(f"[id='target-{bob}']:has-text('75.0')")
    press(page, "#publish")
    page.wait_for_selector("#problem .success")
    assert node(grid, "/atlas/bob").shares == 3.0
    assert node(grid, "/atlas/bob").dates.ends_on == (clock.now() + timedelta(days=14)).date()
    write(page, "#amount", "75")
    write(page, "#ask-reason", "Two new postdocs, their runs start on Monday.")
    if scripts:
        page.wait_for_selector("#ask-effect:has-text('65.2')")
    press(page, "#send-request")
    page.wait_for_selector("[data-testid=request][data-state=open]")
    for part in ("atlas", "75", "60"):
        assert part in page.inner_text("[data-testid=request-title]")
    asked = ChangeSet.objects.get(origin="request")
    manager.sign_in("maria")
    page = manager.go("/inbox/")
    assert page.inner_text(".count.alert") == "1"
    assert "biomed −3.9" in page.inner_text(f"#request-{asked.pk}")
    press(page, f"#grant-{asked.pk}")
    page.wait_for_selector("#problem .success")
    assert page.is_visible("[data-testid=nothing-waits]")
    assert Policy.objects.get(slug=SLUG).head_number == 4
    assert node(grid, "/atlas").shares == 75.0
    assert lead.go(page_of(grid)).get_attribute("[data-testid=request]", "data-state") == "granted"


@pytest.mark.deep
def test_a_boost_and_a_request_by_mouse(people: Grid, visit: Open) -> None:
    boost_ask_and_grant(people, visit, _click, _type_by_mouse, scripts=True)


@pytest.mark.deep
def test_a_boost_and_a_request_by_keyboard(people: Grid, visit: Open) -> None:
    boost_ask_and_grant(people, visit, _key, _type_by_key, scripts=True)


@pytest.mark.deep
def test_a_boost_and_a_request_without_scripts(people: Grid, visit: Open) -> None:
    boost_ask_and_grant(people, visit, _click, _type_by_mouse, scripts=False)


def test_focus_survives_every_swap_of_the_group(people: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in("alice")
    page = window.go(page_of(people))
    bob = people.uid("/atlas/bob")
    page.focus(f"#shares-{bob}")
    page.keyboard.press("Control+a")
    page.keyboard.type("4")
    page.wait_for_selector("#n-changes[data-value='1']")
    assert page.evaluate("document.activeElement.id") == f"shares-{bob}"
    assert page.input_value(f"#shares-{bob}") == "4"
    for selector, shows in ((f"#open-{bob}", f"#until-{bob}"), ("#equalise", "#n-changes[data-value='0']")):
        page.focus(selector)
        page.keyboard.press("Enter")
        page.wait_for_selector(shows)
        assert page.evaluate("document.activeElement.id") == selector[1:]
    page.focus("#amount")
    page.keyboard.type("80")
    page.wait_for_selector("#ask-effect:has-text('66.7')")
    assert page.evaluate("document.activeElement.id") == "amount"


CUT = "[...document.querySelectorAll('.members .table-wrap')].some((each) => each.scrollWidth > each.clientWidth)"
HEIGHTS = "[...document.querySelectorAll('.members tbody tr')].map((row) => row.offsetHeight)"


@pytest.mark.parametrize("width", [1440, 1280, 1024])
def test_no_column_is_cut_while_shares_are_edited(people: Grid, visit: Open, width: int) -> None:
    window = visit(width=width)
    window.sign_in("alice")
    page = window.go(page_of(people))
    bob = people.uid("/atlas/bob")
    heights = page.evaluate(HEIGHTS)
    page.fill(f"#shares-{bob}", "123.5")
    page.wait_for_selector(f"[id='target-{bob}']:has-text('99.2')")
    assert not page.evaluate(CUT)
    assert page.evaluate(HEIGHTS) == heights, "rows with a new target are as high as before"
    page.click(f"#open-{bob}")
    page.wait_for_selector(f"#until-{bob}")
    assert not page.evaluate(CUT)


def test_after_the_session_ended_typed_shares_are_published_once_signed_in(people: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in("alice")
    page = window.go(page_of(people))
    bob = people.uid("/atlas/bob")
    page.context.clear_cookies()
    with page.expect_response(lambda answer: answer.status in (401, 403)):
        page.fill(f"#shares-{bob}", "5")
    expect(page.locator("#live-bar")).to_have_attribute("data-state", "out")
    expect(page.locator("#problem")).to_be_empty()
    page.fill("#reason", "Kept")
    page.click("#publish")
    page.fill("#again-password", PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_selector("#problem .success")
    assert node(people, "/atlas/bob").shares == 5.0
    assert Policy.objects.get(slug=SLUG).head_number == 3


def test_enter_in_a_field_previews_without_publishing(people: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in("alice")
    page = window.go(page_of(people))
    page.fill(f"#shares-{people.uid('/atlas/bob')}", "5")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"tr.edited#m-{people.uid('/atlas/bob')}")
    assert Policy.objects.get(slug=SLUG).head_number == 2


@pytest.mark.deep
def test_the_group_is_undone_with_one_button(people: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in("alice")
    page = window.go(page_of(people))
    page.fill(f"#shares-{people.uid('/atlas/bob')}", "5")
    page.fill("#reason", "A try.")
    window.follow("#publish")
    window.follow("form[action$='/undo/'] button")
    assert page.is_visible("#problem .success")
    assert Policy.objects.get(slug=SLUG).head_number == 4
    assert node(people, "/atlas/bob").shares == 1.0


def prepared(grid: Grid, visit: Visit) -> int:
    """A current boost and a waiting request."""
    actor = Actor(user=grid.alice, via="page")
    asked = request_shares(
        policy_slug=SLUG,
        entry_uid=grid.uid("/atlas"),
        terms=RequestTerms(percent=66.0, until=(grid.at + timedelta(days=200)).date()),
        reason="Two new postdocs, their runs start on Monday.",
        at=grid.at,
        actor=actor,
    )
    return asked.pk


@in_windows_of_all
def test_group_and_inbox_are_accessible_and_fit(people: Grid, visit: Open, theme: str, width: int) -> None:
    lead, manager = visit(theme=theme, width=width), visit(theme=theme, width=width)
    lead.sign_in("alice")
    manager.sign_in("maria")
    page = lead.go(page_of(people))
    bob = people.uid("/atlas/bob")
    page.click(f"#open-{bob}")
    page.wait_for_selector(f"#until-{bob}")
    page.fill(f"#shares-{bob}", "x")
    page.click("#show-effect")
    page.wait_for_selector("#group-problem")
    for window, path in ((lead, ""), (manager, "/inbox/"), (lead, "/inbox/"), (lead, "/")):
        if path == "/inbox/" and not ChangeSet.objects.filter(origin="request").exists():
            prepared(people, lead)
        if path:
            window.go(path)
            page.wait_for_load_state("networkidle")
        for element in window.page.query_selector_all("details:not([open]) > summary"):
            element.click()
        assert window.axe() == [], path
        assert window.overflow() <= 0, path
    lead.go(page_of(people))
    assert lead.axe() == []
    assert lead.overflow() <= 0
