"""A manager reads the past days under a draft, on the page of its review and in the editor, also by keyboard."""

from __future__ import annotations

import pytest

from apps.accounts.models import User
from apps.core import clock
from apps.policies.models import ChangeSet
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.series import back_test_runs
from tests.browser.conftest import Open, in_windows_of_all
from tests.browser.test_review import FEWER, drafted
from tests.grants import make_grant
from tests.pages.grid import Grid


@pytest.fixture
def maria(grid: Grid) -> User:
    user = User.objects.create_user("maria", "", "x")
    make_grant(user, grid.uid("/"), at=clock.now())
    return user


def _compute(change_set: ChangeSet) -> Run:
    run = Run.objects.filter(kind=back_test_runs.KIND, subject=f"changeset:{change_set.pk}").latest("pk")
    done = work_run_now(run.pk)
    assert done.state == "succeeded", done.error
    return done


@pytest.mark.deep
def test_days_are_chosen_and_come_by_themselves(grid: Grid, visit: Open, maria: User) -> None:
    change_set = drafted(maria, FEWER)
    window = visit()
    window.sign_in("maria")
    page = window.go(f"/changes/{change_set.pk}/back-test/")
    page.focus("#back-test-days")
    page.keyboard.press("Home")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#back-test-part [data-poll]")
    page.wait_for_selector("#pause:focus")
    assert _compute(change_set).arguments["days"] == 7
    page.wait_for_selector("[data-testid=back-test-sentence]")
    page.wait_for_selector("#back-test:focus")
    assert page.locator("#back-test-part [data-poll]").count() == 0
    ids = page.evaluate("Array.from(document.querySelectorAll('[id]'), (each) => each.id)")
    assert len(ids) == len(set(ids))
    assert page.locator(".back-test tbody tr").count() == 3  # all three VOs have another target
    assert "Usage is as it was" in page.inner_text("[data-testid=back-test-limits]")


@pytest.mark.deep
def test_the_editor_shows_the_days_of_its_last_version(grid: Grid, visit: Open, maria: User) -> None:
    change_set = drafted(maria, FEWER)
    window = visit()
    window.sign_in("maria")
    page = window.go(f"/changes/{change_set.pk}/edit/?view=bars")
    page.click("#back-test-of-draft > summary")
    page.click("#compute-back-test")
    page.wait_for_selector("#back-test-part [data-poll]")
    _compute(change_set)
    page.wait_for_selector("[data-testid=back-test-sentence]")
    page.wait_for_selector("#back-test:focus")
    page.fill(f"#s-{grid.uid('/cms')}", "15")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-testid=back-test-sentence]", state="detached")
    assert page.locator("#compute-back-test").is_visible()


@in_windows_of_all
def test_the_past_days_are_accessible_and_fit(grid: Grid, visit: Open, maria: User, theme: str, width: int) -> None:
    change_set = drafted(maria, FEWER)
    window = visit(theme=theme, width=width)
    window.sign_in("maria")
    page = window.go(f"/changes/{change_set.pk}/back-test/")
    assert window.axe() == []
    page.click("#compute-back-test")
    page.wait_for_selector("#back-test-part [data-poll]")
    _compute(change_set)
    page.wait_for_selector("[data-testid=back-test-sentence]")
    page.click(".back-test-days > summary")
    assert window.axe() == []
    assert window.overflow() <= 0
    page = window.go(f"/changes/{change_set.pk}/edit/")
    page.click("#back-test-of-draft > summary")
    page.wait_for_selector("[data-testid=back-test-sentence]")
    assert window.axe() == []
    assert window.overflow() <= 0
