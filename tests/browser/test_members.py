"""A manager lets people in by rule and gives usage back; a person says an account is theirs: by keyboard and mouse."""

from __future__ import annotations

from datetime import timedelta

import pytest
from playwright.sync_api import expect

from apps.accounts.models import User
from apps.core import clock
from apps.mapping.membership_plan import apply_membership_rules
from apps.policies.models import Adjustment
from tests.browser.conftest import Open, in_windows_of_all
from tests.browser.test_my_priority import open_more
from tests.pages.grid import SLUG, Grid


@pytest.mark.deep
def test_a_membership_rule_is_created_without_scripts(grid: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in()
    page = window.go(f"/policy/{SLUG}/n/{grid.uid('/atlas')}/atlas/")
    page.click("#members a")
    page.click("a[href='?rule=new#rules']")
    page.fill("#id_group", "biom*")
    page.fill("#id_days", "90")
    page.fill("#id_reason", "The call of May.")
    window.follow("#rules button[value=preview]")
    assert page.get_attribute("#rule-effect", "data-value") == "2 0 2"
    window.follow("#rules button[value=publish]")
    for part in ("biom*", "1", "user", "90"):
        assert part in page.inner_text("[data-testid=rule]")
    apply_membership_rules(at=clock.now())
    page.reload()
    assert "carol" in page.inner_text("#people")


@pytest.mark.deep
def test_usage_is_credited_by_keyboard_with_a_live_preview(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go(f"/policy/{SLUG}/adjustments/{grid.uid('/atlas/alice')}/")
    page.focus("#id_amount")
    page.keyboard.type("2400")
    page.wait_for_selector("#adjusted")
    assert page.evaluate("document.activeElement.id") == "id_amount", "what is swapped takes no focus along"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.fill("#id_note", "b-cn0417")
    page.fill("#id_reason", "Node failure.")
    page.focus("#effect button[value=publish]")
    page.keyboard.press("Enter")
    page.wait_for_selector("#list table")
    assert "b-cn0417" in page.inner_text("#list")
    assert Adjustment.objects.get().amount_s == -8_640_000.0
    grid.recompute()
    page = window.go(f"/policy/{SLUG}/n/{grid.uid('/atlas')}/atlas/")
    page.wait_for_selector("#adjustments .list")
    assert "b-cn0417" in page.inner_text("#adjustments")
    assert window.complaints == []


@pytest.mark.deep
def test_an_account_is_claimed_and_confirmed(grid: Grid, visit: Open) -> None:
    User.objects.create_user("rob")
    mine = visit()
    mine.sign_in("rob")
    page = mine.go("/me/priority/")
    page.click("#accounts summary")
    page.fill("#id_namespace", "cluster-a")
    page.fill("#id_user_name", "bob")
    page.click("#accounts details form button")
    page.wait_for_selector("[data-testid=account][data-state=claimed]")
    window = visit()
    window.sign_in()
    page = window.go(f"/policy/{SLUG}/members/{grid.uid('/atlas')}/")
    page.click("#claims button[value=confirm]")
    page.wait_for_selector("#problem .success")
    page = mine.go("/me/priority/")
    open_more(page, "accounts")
    expect(page.locator("[data-testid=account]")).to_have_attribute("data-state", "mine")
    assert str(page.get_attribute("#verdict", "data-rank")).isdigit()


@in_windows_of_all
def test_the_mapping_pages_are_accessible_and_fit(grid: Grid, visit: Open, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width)
    window.sign_in()
    day = (grid.at - timedelta(days=1)).date().isoformat()
    page = window.go(f"/policy/{SLUG}/adjustments/{grid.uid('/atlas/alice')}/")
    page.fill("#id_day", day)
    page.fill("#id_amount", "12,5")
    page.fill("#id_note", "a very long note about " + "many " * 40)
    page.fill("#id_reason", "Because.")
    page.wait_for_selector("#adjusted")
    assert window.axe() == []
    page.click("#effect button[value=publish]")
    page.wait_for_selector("#list table")
    grid.recompute()
    members = f"/policy/{SLUG}/members/{grid.uid('/atlas')}/"
    adjustments = f"/policy/{SLUG}/adjustments/{grid.uid('/atlas')}/"
    for path in (members, f"{members}?rule=new", adjustments, "/me/priority/", f"/policy/{SLUG}/"):
        window.go(path)
        assert window.axe() == [], path
        assert window.overflow() <= 0, path
    assert window.complaints == []
