"""The walk through the product: sign in, find a VO, change its share, watch the priorities move."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Route, expect

from apps.core import clock
from tests.browser.conftest import Open
from tests.pages.grid import SLUG, Grid


def _percent(text: str) -> float:
    found = re.search(r"([\d.]+)\u00a0%", text)
    assert found, text
    return float(found[1])


@pytest.mark.deep
def test_a_changed_share_updates_bar_rank_and_rest(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in_by_form()
    page = window.page
    page.locator(f"nav a[href='/policy/{SLUG}/']:visible").first.click()
    row = page.locator("tr[role=row]", has=page.get_by_role("link", name="biomed", exact=True))
    expect(row.locator(".c-target")).to_have_text("30.0\u00a0%")
    tick_before = row.locator(".tick").get_attribute("x")
    carol = page.locator("tr[role=row]", has=page.get_by_role("link", name="carol", exact=True))
    expect(carol).to_be_visible()
    rank_before = _rank(page.request.get(f"{window.base}/api/v1/policies/{SLUG}/priorities?account=carol").json())

    with page.expect_navigation():
        row.get_by_role("link", name="biomed", exact=True).click()
    page.click("#change-shares")
    page.fill("#shares", "120")
    expect(page.locator("#effect tr.me")).to_contain_text("63.2\u00a0%")
    page.fill("#reason", "A new data challenge")
    page.locator("#publish").click()
    expect(page.locator("#problem .success")).to_contain_text("3")
    expect(page.locator("#changed li").first).to_contain_text("A new data challenge")

    grid.recompute()
    window.go(f"/policy/{SLUG}/")
    expect(row.locator(".c-target")).to_have_text("63.2\u00a0%")
    assert row.locator(".tick").get_attribute("x") != tick_before
    actual = _percent(row.locator(".c-actual").inner_text())

    answer = page.request.get(f"{window.base}/api/v1/policies/{SLUG}/priorities?account=carol").json()
    assert _rank(answer) < rank_before
    tree = page.request.get(f"{window.base}/api/v1/policies/{SLUG}/tree?path=/biomed").json()
    entry = tree.get("root", tree)
    assert round(entry["target"] * 100, 1) == 63.2
    assert round(entry["actual"] * 100, 1) == actual
    carol.get_by_role("link", name="carol", exact=True).click()
    expect(page.locator("#rank")).to_contain_text(str(_rank(answer)))


@pytest.mark.deep
def test_input_typed_before_the_scripts_load_is_previewed(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.page
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/htmx*.js", hold)
    with page.expect_request("**/htmx*.js"):
        page.goto(f"{window.base}/policy/{SLUG}/n/{grid.uid('/biomed')}/biomed/?panel=shares", wait_until="commit")
    page.fill("#shares", "120")
    assert held
    for route in held:
        route.continue_()
    expect(page.locator("#effect tr.me")).to_contain_text("63.2\u00a0%")


def _rank(answer: dict[str, list[dict[str, int]]]) -> int:
    return answer["results"][0]["rank"]


@pytest.mark.deep
def test_the_journey_works_without_scripts(grid: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in_by_form()
    page = window.go(f"/policy/{SLUG}/?q=bio")
    expect(page.get_by_role("link", name="biomed", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="atlas", exact=True)).to_have_count(0)
    window.go(f"/policy/{SLUG}/")
    expect(page.get_by_role("link", name="carol", exact=True)).to_be_visible()
    page.locator(f"button[name=shut][value='{grid.uid('/biomed')}']").click()
    expect(page.get_by_role("link", name="carol", exact=True)).to_have_count(0)
    assert "shut=" in page.url
    page.get_by_role("link", name="biomed", exact=True).click()
    page.click("#change-shares")
    page.fill("#shares", "0,5")
    page.locator("button[name=step][value=preview]").click()
    expect(page.locator("#effect tr.me")).to_contain_text("0.7\u00a0%")
    page.fill("#reason", "Smaller")
    page.locator("#publish").click()
    expect(page.locator("#problem .success")).to_contain_text("3")


@pytest.mark.deep
def test_a_concurrent_change_is_shown_with_the_own_one(grid: Grid, visit: Open) -> None:
    from apps.accounts.actor import Actor
    from apps.policies.services import change_shares

    window = visit()
    window.sign_in()
    uid = grid.uid("/biomed")
    page = window.go(f"/policy/{SLUG}/n/{uid}/biomed/?panel=shares")
    page.fill("#shares", "50")
    page.fill("#reason", "Mine")
    expect(page.locator("#effect table")).to_be_visible()
    change_shares(
        policy_slug=SLUG,
        entry_uid=uid,
        shares=25,
        reason="Theirs",
        at=clock.now(),
        actor=Actor(user=grid.admin, via="page"),
    )
    page.locator("#publish").click()
    expect(page.locator("#conflict")).to_contain_text("25")
    expect(page.locator("#shares")).to_have_value("50")
    expect(page.locator("#reason")).to_have_value("Mine")
    page.locator("#publish").click()
    expect(page.locator("#problem .success")).to_contain_text("4")
