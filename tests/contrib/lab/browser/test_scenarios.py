"""The papers' scenarios in a browser: each opens filled in, and figures 5 to 10 are beside the printed numbers."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from apps.accounts.models import User
from apps.contrib.lab.scenario_files import shipped_scenarios
from apps.core import clock
from apps.policies.models import Policy
from tests.browser.conftest import Open
from tests.contrib.lab.browser.test_experiments import LAB, shoot, signed_in, work
from tests.grants import make_grant
from tests.pages.grid import SLUG, Grid

NAMES = sorted(shipped_scenarios())


@pytest.fixture
def maria(grid: Grid) -> Grid:
    """maria manages the whole."""
    user = User.objects.create_user("maria", first_name="Maria", last_name="Hedin")
    make_grant(user, grid.uid("/"), policy=Policy.objects.get(slug=SLUG), at=clock.now())
    return grid


def test_a_scenario_opens_the_builder_with_its_estimate(maria: Grid, visit: Open, pytestconfig: pytest.Config) -> None:
    """The others are asked for by requests, in the tests of pages."""
    window = signed_in(visit, "maria")
    page = window.go(LAB)
    page.click("main a:has-text('Scenarios')")
    expect(page.locator("h1")).to_have_text("Scenarios")
    window.look()
    shoot(window, "scenarios")
    links = page.locator("[data-testid=scenario] a")
    addresses = [link.get_attribute("href") or "" for link in links.all()]
    assert sorted(address.rpartition("=")[2] for address in addresses) == NAMES
    for address in addresses if pytestconfig.getoption("deep") else addresses[:1]:
        window.go(address)
        expect(page.locator("#estimate [data-testid=estimate]")).to_contain_text("processor time")
        expect(page.locator("#id_name")).not_to_have_value("")


@pytest.mark.deep
def test_figures_5_to_10_are_drawn_by_group_beside_the_printed_numbers(maria: Grid, visit: Open) -> None:
    window = signed_in(visit, "maria")
    page = window.go(f"{LAB}scenarios/")
    page.click("[data-testid=compare]")
    expect(page.locator("#estimate [data-testid=estimate]")).to_contain_text("3 simulations")
    window.look()
    shoot(window, "scenario-builder")
    window.follow("button:has-text('Start the experiment')")
    work()
    expect(page.locator("[data-testid=state]")).to_have_attribute("data-state", "done", timeout=20_000)
    page.click("details:has(#distances) > summary")
    worst = page.locator("[data-testid=distance]").first
    expect(worst).to_have_attribute("data-key", "/VO-B/P-B1")
    assert re.findall(r"\d\.\d\d", worst.inner_text()) == ["1.96", "3.38", "0.62", "1.01", "0.02", "0.03"]
    figure = page.locator("#fig-group")
    figure.scroll_into_view_if_needed()
    page.wait_for_selector("#fig-group[data-drawn]")
    expect(figure.locator(".fig-title")).to_have_text("Shares in P-B1 over time")
    expect(figure.locator(".fig-say")).to_contain_text("1.01 points from target")
    printed = page.locator("[data-testid=printed]")
    assert printed.count() == 2 + 3 + 2 + 3 + 3 + 3  # members in figures 5 to 10
    expect(page.locator("[data-testid=printed] .badge.bad")).to_have_count(0)
    page.click("details.pictures > summary")
    for name in ("share", "waits"):
        page.locator(f"#fig-{name}").scroll_into_view_if_needed()
        page.wait_for_selector(f"#fig-{name}[data-drawn]")
    window.look()
    shoot(window, "scenario-result")
    figure.locator(".fig-controls a:has-text('VO-A')").focus()
    page.keyboard.press("Enter")
    expect(figure.locator(".fig-title")).to_have_text("Shares in VO-A over time")
    figure.locator(".fig-controls a:has-text('Predictive')").click()
    expect(figure.locator(".fig-say")).to_contain_text("Predictive usage")
    expect(page.locator("#use")).to_have_count(0)
