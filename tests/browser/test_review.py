"""A manager reviews and publishes, a second person approves a large change: by mouse, by keyboard, without scripts."""

from __future__ import annotations

import time
from typing import Any

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.core import clock
from apps.policies import services
from apps.policies.models import ChangeSet
from apps.policies.records import NewChangeSet
from apps.priorities import change_effect_runs
from apps.runs.services import work_run_now
from tests.browser.conftest import PATIENCE_S, Open, Visit, in_windows_of_all
from tests.grants import make_grant
from tests.pages.grid import SLUG, Grid

FEWER = {"op": "set_shares", "entry": "/atlas", "shares": 20}


def manager(grid: Grid, name: str) -> User:
    user = User.objects.create_user(name, "", "x")
    make_grant(user, grid.uid("/"), at=clock.now())
    return user


@pytest.fixture
def maria(grid: Grid) -> User:
    return manager(grid, "maria")


@pytest.fixture
def lars(grid: Grid) -> User:
    return manager(grid, "lars")


def drafted(user: User, *operations: dict[str, Any]) -> ChangeSet:
    return services.make_change_set(
        policy_slug=SLUG,
        new=NewChangeSet(operations=operations, reason="Atlas winds down."),
        at=clock.now(),
        actor=Actor(user=user, via="page"),
    )


def guard(**limits: float) -> None:
    services.change_settings(
        policy_slug=SLUG, settings={"review": limits}, reason="Four eyes.", at=clock.now(), actor=COMMAND
    )


def expect_state(change_set: ChangeSet, state: str) -> None:
    """Once what was pressed has been sent and answered."""
    ends_at = time.monotonic() + PATIENCE_S
    while ChangeSet.objects.get(pk=change_set.pk).state != state and time.monotonic() < ends_at:
        time.sleep(0.02)
    assert ChangeSet.objects.get(pk=change_set.pk).state == state


def focused(visit: Visit) -> str:
    found: str = visit.page.evaluate("document.activeElement.id || document.activeElement.tagName")
    return found


def press_until(visit: Visit, wanted: str, key: str = "Tab", most: int = 80) -> None:
    for _ in range(most):
        if visit.page.evaluate("(s) => document.activeElement.matches(s)", wanted):
            return
        visit.page.keyboard.press(key)
    raise AssertionError(f"{wanted} is not reached by {key}")


@pytest.mark.deep
def test_a_second_person_approves_a_large_change_with_the_mouse(
    grid: Grid, visit: Open, maria: User, lars: User
) -> None:
    guard(points=5)
    change_set = drafted(lars, FEWER)
    author = visit()
    author.sign_in("lars")
    page = author.go(f"/changes/{change_set.pk}/")
    assert page.locator("[data-check=size][data-state=block]").is_visible()
    assert page.locator("#decide-publish").count() == 0
    page.click("#decide-propose")
    expect_state(change_set, "proposed")
    second = visit()
    second.sign_in("maria")
    page = second.go(f"/policy/{SLUG}/changes/?list=waiting")
    page.click("tr:has-text('Atlas winds down.') th a")
    page.click("#tab-effect")
    page.wait_for_selector("#effect svg.chart")
    assert "atlas" in page.inner_text("table.later [data-key=above_falls] >> nth=0"), "the reason for a new place"
    page.fill("#why", "Agreed in the meeting.")
    page.click("#approve")
    expect_state(change_set, "approved")
    page = author.go(f"/changes/{change_set.pk}/")
    page.click("#decide-publish")
    page.wait_for_selector("[data-testid=decided][data-state=published]")
    expect_state(change_set, "published")


@pytest.mark.deep
def test_a_second_person_approves_and_publishes_by_keyboard(grid: Grid, visit: Open, maria: User, lars: User) -> None:
    guard(points=5)
    change_set = drafted(lars, FEWER, {"op": "set_shares", "entry": "/cms", "shares": 40})
    author = visit()
    author.sign_in("lars")
    author.go(f"/changes/{change_set.pk}/")
    author.page.keyboard.press("a")
    author.page.keyboard.press("Enter")
    author.page.wait_for_selector("#problem .success")
    second = visit()
    second.sign_in("maria")
    page = second.go(f"/changes/{change_set.pk}/")
    page.keyboard.press("n")
    assert focused(second) == "edit-0"
    page.keyboard.press("n")
    assert focused(second) == "edit-1"
    page.keyboard.press("p")
    assert focused(second) == "edit-0"
    press_until(second, "#tab-checks", "Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#checks")
    assert focused(second) == "tab-checks"
    page.keyboard.press("a")
    assert focused(second) == "approve"
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-testid=have-approved]")
    page.keyboard.press("a")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-testid=decided][data-state=published]")
    expect_state(change_set, "published")


@pytest.mark.deep
def test_the_review_works_without_scripts(grid: Grid, visit: Open, maria: User, lars: User) -> None:
    change_set = drafted(lars, FEWER)
    window = visit(scripts=False)
    window.sign_in("lars")
    page = window.go(f"/changes/{change_set.pk}/")
    page.click("#decide-propose")
    other = visit(scripts=False)
    other.sign_in("maria")
    page = other.go(f"/changes/{change_set.pk}/")
    for tab in ("effect", "checks", "discussion"):
        page.click(f"#tab-{tab}")
        page.wait_for_selector(f"section#{tab}")
    page.fill("#comment", "Until when?")
    page.click("#send-comment")
    assert "Until when?" in page.inner_text("#review")
    page.fill("#why", "Say until when.")
    page.click("#decide-request-changes")
    expect_state(change_set, "draft")
    page = window.go(f"/changes/{change_set.pk}/")
    page.click("details:has(#effective_at) summary")
    page.fill("#effective_at", "2099-01-01T08:00")
    page.click("#decide-schedule")
    assert "2099" in page.inner_text("[data-testid=scheduled]")


@pytest.mark.deep
def test_conflicts_are_resolved_one_by_one(grid: Grid, visit: Open, lars: User) -> None:
    change_set = drafted(lars, FEWER)
    services.change_shares(
        policy_slug=SLUG, entry_uid=grid.uid("/atlas"), shares=50, reason="Meanwhile.", at=clock.now(), actor=COMMAND
    )
    window = visit()
    window.sign_in("lars")
    page = window.go(f"/changes/{change_set.pk}/")
    page.click("[data-testid=conflicts] a")
    assert [page.inner_text(f".three > :nth-child({n}) .value") for n in (1, 2, 3)] == ["60", "20", "50"]
    page.check("input[value=mine]")
    page.click("form:has(.conflict) button[type=submit]")
    page.click("#decide-publish")
    expect_state(change_set, "published")


def test_focus_and_input_stay_when_a_comment_is_sent(grid: Grid, visit: Open, lars: User) -> None:
    change_set = drafted(lars, FEWER)
    window = visit()
    window.sign_in("lars")
    page = window.go(f"/changes/{change_set.pk}/discussion/")
    page.fill("#comment", "First.")
    page.focus("#send-comment")
    page.keyboard.press("Enter")
    page.wait_for_selector(".cmt")
    assert focused(window) == "send-comment"
    assert page.input_value("#comment") == ""
    page.keyboard.press("Enter")
    page.wait_for_selector("#comment-problem")
    assert focused(window) == "comment"


@pytest.mark.deep
def test_a_large_policy_shows_its_effect_when_computed(
    grid: Grid, visit: Open, lars: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_effect_runs, "MOST_ENTRIES_AT_ONCE", 3)
    change_set = drafted(lars, FEWER)
    window = visit()
    window.sign_in("lars")
    page = window.go(f"/changes/{change_set.pk}/effect/")
    page.click("#compute-effect")
    page.wait_for_selector("[data-poll]")
    page.wait_for_function("document.activeElement.id === 'pause'")
    run = change_effect_runs.newest_run(change_set)
    assert run is not None
    work_run_now(run.pk)
    page.wait_for_selector("table.later")
    page.wait_for_function("document.activeElement.id === 'ranks'")
    assert page.locator("[data-poll]").count() == 0


@in_windows_of_all
def test_every_page_of_a_review_is_accessible_and_fits(
    grid: Grid, visit: Open, maria: User, lars: User, theme: str, width: int
) -> None:
    guard(points=5)
    change_set = drafted(
        lars,
        FEWER,
        {"op": "add", "parent": "/", "name": "cryo-em", "kind": "vo", "shares": 12},
        {"op": "move", "entry": "/cms/dave", "parent": "/biomed"},
        {"op": "archive", "entry": "/atlas/bob"},
        {"op": "set_shares", "entry": "/cms/erin", "shares": 0},
    )
    at = clock.now()
    services.propose_change_set(id=change_set.pk, version=change_set.version, at=at, actor=Actor(user=lars, via="page"))
    stuck = drafted(lars, {**FEWER, "shares": 30}, {"op": "set_shares", "entry": "/cms", "shares": 11})
    services.change_shares(
        policy_slug=SLUG, entry_uid=grid.uid("/cms"), shares=10.5, reason="Meanwhile.", at=at, actor=COMMAND
    )
    window = visit(theme=theme, width=width)
    window.sign_in("maria")
    here = f"/changes/{change_set.pk}/"
    for path in (here, f"{here}effect/", f"{here}checks/", f"{here}discussion/", f"/policy/{SLUG}/changes/"):
        window.go(path)
        assert window.axe() == [], path
        assert window.overflow() <= 0, path
    window.sign_in("lars")
    for path in (f"/changes/{stuck.pk}/", f"/changes/{stuck.pk}/conflicts/"):
        window.go(path)
        assert window.axe() == [], path
        assert window.overflow() <= 0, path
