"""Job priorities in a browser: readable everywhere, and answered in place where scripts run."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from apps.contrib.jobs.pages.calculator import STARTS
from apps.contrib.jobs.pages.views import EXAMPLES
from tests.browser.conftest import NARROW, Open, in_windows_of_all
from tests.every_page.test_every_page import photograph
from tests.pages.grid import Grid

CASE = '{"algorithm": {"name": "slurm-multifactor"}, "weights": {"fairshare": 1000}, "jobs": [{"id": "38", "nice": 5}]}'


@in_windows_of_all
def test_explained_jobs_are_accessible_and_fit(grid: Grid, visit: Open, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width)
    window.sign_in("alice")
    places = {"empty": "/jobs/"} | {each.name: f"/jobs/?example={each.name}" for each in EXAMPLES}
    problems, wide = {}, {}
    for name, path in places.items():
        page = window.go(path)
        for summary in page.locator("details.more summary").all()[:2]:
            summary.click()
        problems[name], wide[name] = window.axe(), window.overflow()
    page.fill("#id_text", "hello")
    page.locator(".jobs-form button[type=submit]").click()
    expect(page.locator("#result [data-testid=problem] code")).to_contain_text("1")
    problems["refused"], wide["refused"] = window.axe(), window.overflow()
    assert {name: found for name, found in problems.items() if found} == {}
    assert {name: pixels for name, pixels in wide.items() if pixels > 0} == {}


@in_windows_of_all
def test_the_calculator_works_in_any_window(grid: Grid, visit: Open, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width)
    window.sign_in("alice")
    problems, wide = {}, {}
    for start in STARTS:
        page = window.go(f"/jobs/calculator/?{start.query}")
        for summary in page.locator("details.more summary").all()[:3]:
            summary.click()
        photograph(page, f"jobs-calculator-{start.name}")
        problems[start.name], wide[start.name] = window.axe(), window.overflow()
        window.resize(1024)
        assert window.overflow() <= 0, start.name
        window.resize(NARROW)
        photograph(page, f"jobs-calculator-{start.name}")
        window.resize(width)
    page.fill("#running-1", "many")
    expect(page.locator("#result [data-testid=problem]")).to_contain_text("ada")
    problems["refused"], wide["refused"] = window.axe(), window.overflow()
    assert {name: found for name, found in problems.items() if found} == {}
    assert {name: pixels for name, pixels in wide.items() if pixels > 0} == {}


@pytest.mark.deep
def test_numbers_update_while_typing_and_are_kept_in_the_address(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in("alice")
    page = window.go("/jobs/calculator/")
    of_b = page.locator("[data-testid=sum][data-key=userB]")
    expect(of_b).to_contain_text("90,277.8")
    page.fill("#weight_tickets_functional", "2000000")
    expect(of_b).to_contain_text("180,555.6")
    expect(page.locator("#weight_tickets_functional")).to_be_focused()
    expect(page).to_have_url(re.compile("weight_tickets_functional=2000000"))
    page.fill("#user-4", "userD")
    page.fill("#waiting-4", "1")
    expect(page.locator("[data-testid=sum][data-key=userD]")).to_be_visible()
    page.reload()
    expect(page.locator("[data-testid=sum][data-key=userD]")).to_be_visible()
    expect(page.locator("#weight_tickets_functional")).to_have_value("2000000")
    page.click("button[name=drop][value=user-4]")
    expect(page.locator("[data-testid=sum][data-key=userD]")).to_have_count(0)
    page.click("button[name=preset][value='8.1.9']")
    expect(page.locator("#weight_urgency")).to_have_attribute("placeholder", "0.5")
    page.locator("summary", has_text="Variants").click()
    page.check("[name=variants][value=even_split]")
    expect(page.locator("th.wide-head")).to_have_count(1)


@pytest.mark.deep
def test_the_calculator_works_without_scripts(grid: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in("alice")
    page = window.go("/jobs/calculator/")
    page.fill("#weight_tickets_functional", "2000000")
    page.press("#weight_tickets_functional", "Enter")
    expect(page.locator("[data-testid=sum][data-key=userB]")).to_contain_text("180,555.6")
    page.click("button[name=add][value=user]")
    page.fill("#user-4", "userD")
    page.fill("#waiting-4", "1")
    page.get_by_role("button", name="Calculate").click()
    expect(page.locator("[data-testid=sum][data-key=userD]")).to_be_visible()
    assert window.overflow() <= 0


@pytest.mark.parametrize("scripts", [True, pytest.param(False, marks=pytest.mark.deep)])
def test_a_case_is_answered_with_and_without_scripts(grid: Grid, visit: Open, scripts: bool) -> None:
    window = visit(scripts=scripts)
    window.sign_in("alice")
    page = window.go("/jobs/")
    page.fill("#id_text", CASE)
    page.locator(".jobs-form button[type=submit]").click()
    expect(page.locator("#verdict")).to_contain_text("38")
    expect(page.locator("#verdict")).to_be_focused()
    page.locator("[data-testid=explanation][data-value='38'] summary").click()
    expect(page.locator(".lines")).to_contain_text(re.compile(r"-5 = 0\b"))
    expect(page.locator("#id_text")).to_have_value(CASE)
