"""The first screen of a scheduler answers the operator; what is needed once is folded."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.actor import SYSTEM
from apps.contrib.schedulers.passes import record_pass
from apps.contrib.schedulers.services import connect_scheduler
from tests.browser.conftest import Open, in_windows_of_all
from tests.contrib.schedulers.reports import job, report
from tests.pages.grid import SLUG, Grid

FOLD = 900
QUEUE = [
    job("201", "alice", "physics", site=20_000, value=95_000),
    job("202", "bob", "physics", site=90_000),
    job("203", "carol", "biology", site=70_000),
]
CHECKS = [{"code": "double_counting", "severity": "warning", "found": "Weight=1", "remedy": "Weight=0"}]


def _connect(grid: Grid, mode: str = "shadow") -> None:
    connect_scheduler(policy_slug=SLUG, name="c1", settings={"mode": mode}, at=grid.at, actor=SYSTEM)


def _report(grid: Grid, minutes_ago: int = 0, **more: Any) -> None:
    at = grid.at - timedelta(minutes=minutes_ago)
    times = {"pass": uuid4(), "started_at": at - timedelta(seconds=9), "ended_at": at - timedelta(seconds=8)}
    sent = report(mode="shadow", queue=QUEUE, checks=CHECKS, **times, **more)
    record_pass(name="c1", report=sent, body_sha256="", at=at, actor=SYSTEM)


def _is_in_first_view(page: Page, selector: str) -> bool:
    box = page.locator(selector).first.bounding_box()
    return box is not None and box["y"] + box["height"] <= FOLD


def test_state_lag_differences_and_moves_are_in_the_first_view(grid: Grid, visit: Open) -> None:
    _connect(grid)
    _report(grid)
    window = visit()
    window.sign_in()
    page = window.go("/schedulers/c1/")
    for fact in ("headline", "kpi"):
        assert _is_in_first_view(page, f"[data-testid={fact}]"), fact
    for key in ("lag", "differing", "moved", "failure"):
        assert _is_in_first_view(page, f"[data-testid=kpi][data-key={key}]"), key
    assert _is_in_first_view(page, "#fig-lag-title")
    assert _is_in_first_view(page, "#changes")
    expect(page.get_by_role("link", name="Turn on…")).to_be_visible()
    window.look()


def test_one_without_a_report_leads_to_its_command(grid: Grid, visit: Open) -> None:
    _connect(grid)
    window = visit()
    window.sign_in()
    page = window.go("/schedulers/c1/")
    assert _is_in_first_view(page, "#install a")
    _report(grid)
    page = window.go("/schedulers/c1/")
    expect(page.locator("#install")).to_have_count(0)
    expect(page.locator("#command-reset")).not_to_be_visible()


def test_commands_and_remedies_are_copied(grid: Grid, visit: Open) -> None:
    _connect(grid)
    _report(grid)
    window = visit()
    window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    window.sign_in()
    page = window.go("/schedulers/c1/")
    page.locator("[data-copy=remedy-1]").click()
    expect(page.locator("[data-copy=remedy-1]")).to_have_text("Copied")
    page.locator("#unreachable summary").click()
    page.locator("[data-copy=command-reset]").click()
    expect(page.locator("[data-copy=command-reset]")).to_have_text("Copied")


@pytest.mark.parametrize("scripts", [True, pytest.param(False, marks=pytest.mark.deep)])
def test_a_freeze_is_resumed_from_the_head(grid: Grid, visit: Open, scripts: bool) -> None:
    _connect(grid, mode="on")
    _report(grid, frozen={"code": "order_lost", "detail": "5 accounts have 4 different values, and would have 1."})
    window = visit(scripts=scripts)
    window.sign_in()
    page = window.go("/schedulers/c1/")
    assert _is_in_first_view(page, "[data-testid=problem]")
    window.follow("button[value=resume]")
    expect(page.locator("[data-testid=headline]")).to_be_visible()
    window.look()


@in_windows_of_all
def test_pages_of_schedulers_fit_and_are_accessible(grid: Grid, visit: Open, theme: str, width: int) -> None:
    _connect(grid)
    for minutes in (600, 540, 60, 0):
        _report(grid, minutes)
    window = visit(theme=theme, width=width)
    window.sign_in()
    for path in ("", "c1/", "c1/shadow/", "c1/connect/", "new/"):
        page = window.go(f"/schedulers/{path}")
        for summary in page.locator("details.more > summary").all():
            summary.click()
        window.look()
