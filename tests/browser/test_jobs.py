"""Job priorities in a browser: readable everywhere, and answered in place where scripts run."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from apps.dashboard.job_examples import EXAMPLES
from tests.browser.conftest import Open, in_windows
from tests.dashboard.grid import Grid

CASE = '{"algorithm": {"name": "slurm-multifactor"}, "weights": {"fairshare": 1000}, "jobs": [{"id": "38", "nice": 5}]}'


@in_windows
def test_jobs_taken_apart_are_accessible_and_stay_in_their_window(
    grid: Grid, visit: Open, theme: str, width: int
) -> None:
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


@pytest.mark.parametrize("scripts", [True, False])
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
