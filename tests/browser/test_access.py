"""Access in a real browser: a role given, explained, changed and ended, in both themes and at both widths."""

from __future__ import annotations

from datetime import timedelta

import pytest
from playwright.sync_api import expect

from apps.accounts.models import User
from apps.core import clock
from apps.policies.models import Grant, Policy
from tests.browser.conftest import Open, in_windows_of_all
from tests.grants import make_grant
from tests.pages.grid import SLUG, Grid

PAGE = f"/policy/{SLUG}/access/"
SHOW = "form:has(#person) button[type=submit]"


@pytest.fixture
def maria(grid: Grid) -> User:
    """Manager of /atlas; one of the grants below it ends soon, one belongs to a group."""
    maria = User.objects.create_user("maria", first_name="Maria", last_name="Hedin")
    policy = Policy.objects.get(slug=SLUG)
    given: list[tuple[User | None, str, str, str, int | None]] = [
        (maria, "", "/atlas", "manager", None),
        (grid.alice, "", "/atlas/bob", "lead", 20),
        (None, "ldap:cn=atlas-staff,ou=groups,dc=example,dc=org", "/atlas", "viewer", 200),
    ]
    for user, people, path, role, days in given:
        ends = None if days is None else clock.now() + timedelta(days=days)
        make_grant(
            user,
            grid.uid(path),
            role,
            policy=policy,
            at=clock.now(),
            people=people,
            reason="authority of atlas" if user == maria else "works on it",
            expires_at=ends,
            granted_by=grid.admin if user == maria else maria,
        )
    return maria


@pytest.mark.deep
def test_a_manager_assigns_explains_changes_and_ends_a_role(grid: Grid, maria: User, visit: Open) -> None:
    window = visit()
    window.sign_in("maria")
    page = window.go(PAGE)
    page.click(f".page-head a[href='{PAGE}assign/']")
    page.fill("#id_person", "alice")
    page.fill("#id_entry", "/atlas")
    page.check("[name=role][value=viewer]")
    page.fill("#id_reason", "helps with the numbers")
    page.click(f"form[action='{PAGE}assign/'] button[type=submit]")
    expect(page.locator("#problem .success")).to_contain_text("/atlas")
    given = page.locator("#grants tr", has_text="helps with the numbers")
    expect(given.locator("[data-role=viewer]")).to_be_visible()

    page.fill("#person", "alice")
    page.fill("#at", "/atlas/bob")
    page.click(SHOW)
    expect(page.locator("#why")).to_contain_text("helps with the numbers")
    expect(page.locator(SHOW)).to_be_focused()

    page.locator("#q").press_sequentially("helps no one", delay=10)
    expect(page.locator("#grants [data-testid=no-grants][data-state=filtered]")).to_be_visible()
    expect(page.locator("#q")).to_be_focused()
    page.fill("#q", "")
    given.locator("a.btn").click()
    page.check("[name=role][value=lead]")
    page.click("form:has([name=step][value=change]) button[type=submit]")
    expect(given.locator("[data-role=lead]")).to_be_visible()
    given.locator("a.btn").click()
    page.click("form:has([name=step][value=end]) button[type=submit]")
    expect(page.locator("#problem .success")).to_contain_text("Alice Berg")
    expect(given).to_have_count(0)
    assert Grant.objects.filter(user=grid.alice).count() == 1


@pytest.mark.deep
def test_a_role_is_assigned_by_keyboard_and_without_scripts(grid: Grid, maria: User, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in("maria")
    page = window.go(f"{PAGE}assign/?entry=/atlas/alice")
    page.focus("#id_person")
    page.keyboard.type("alice")
    for _step in range(5):  # past the group, the entry, the role and the fields under Advanced
        page.keyboard.press("Tab")
    page.keyboard.type("manual")
    page.keyboard.press("Enter")
    expect(page.locator("#problem .success")).to_contain_text("/atlas/alice")
    expect(page.locator("#grants tr", has_text="manual").locator("[data-role=lead]")).to_be_visible()
    page.select_option("#role", "viewer")
    page.click("form:has(#role) button[type=submit]")
    expect(page.locator("#grants")).to_contain_text("atlas-staff")
    expect(page.locator("#grants")).not_to_contain_text("manual")


@in_windows_of_all
def test_the_pages_are_accessible_and_fit(grid: Grid, maria: User, visit: Open, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width)
    window.sign_in("maria")
    grant = Grant.objects.get(user=maria)
    for path in (PAGE, f"{PAGE}?view=matrix&person=maria&entry=/atlas/bob", f"{PAGE}assign/", f"{PAGE}{grant.pk}/"):
        window.go(path)
        assert window.axe() == [], path
        assert window.overflow() <= 0, path
    page = window.go(f"/policy/{SLUG}/n/{grid.uid('/atlas')}/atlas/")
    expect(page.locator("#access [data-key=divides_and_publishes]")).to_contain_text("Maria Hedin")
    assert window.axe() == []
