"""The page of advice in a browser: with changes, without any, before it is measured and while it is."""

from __future__ import annotations

import os
from pathlib import Path

import orjson
import pytest
from playwright.sync_api import expect

from apps.accounts.actor import COMMAND
from apps.contrib.lab.advisor.records import Evidence
from apps.contrib.lab.advisor.runs import digest_of, request_advice
from apps.contrib.lab.models import PolicyAdvice
from apps.core import clock
from apps.policies.models import Policy
from tests.browser.conftest import Open, in_windows
from tests.contrib.lab.advisor.made_evidence import evidence, operator, replay, resolution
from tests.pages.grid import SLUG, Grid

PAGE = f"/policy/{SLUG}/algorithm/"
SHOTS = os.environ.get("FAIRSHARE_SHOTS", "")
CHANGED = evidence(
    operators=tuple(map(operator, ("sigmoid-2", "sigmoid", "slurm", "relative", "relative-2", "combined", "absolute"))),
    resolutions=(resolution(256, 12.3), resolution(1024, 1.4), resolution(4096, 0.9), resolution(65_536, 0.0)),
    half_lives=(
        replay("1 day", 4.6, 5.9, value=86_400),
        replay("4 days", 3.5, 4.0, value=345_600),
        replay("7 days", 4.0, 5.0, is_now=True),
    ),
    combined=replay("combined", 3.4, 3.9),
)


def store(stored: Evidence) -> None:
    policy, data = Policy.objects.get(slug=SLUG), orjson.loads(orjson.dumps(stored.to_json()))
    PolicyAdvice.objects.create(
        policy=policy,
        head_number=policy.head_number,
        computed_at=clock.now(),
        evidence=data,
        digest=digest_of(data),
    )


@pytest.mark.deep
@in_windows
def test_each_state_of_the_page_is_accessible(grid: Grid, visit: Open, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width)
    window.sign_in()
    page = window.go(PAGE)

    def look(state: str) -> None:
        if SHOTS:
            page.screenshot(path=Path(SHOTS) / f"advice-{state}-{theme}-{width}.png", full_page=True)
        window.look()

    expect(page.get_by_test_id("advice")).to_have_attribute("data-state", "absent")
    look("absent")
    store(CHANGED)
    window.go(PAGE)
    expect(page.get_by_test_id("advice")).to_have_attribute("data-state", "change")
    look("change")
    request_advice(policy_slug=SLUG, at=clock.now(), actor=COMMAND)
    window.go(PAGE)
    expect(page.locator("[data-poll]")).to_be_visible()
    look("asked")


@pytest.mark.deep
def test_advice_becomes_a_draft_by_one_button(grid: Grid, visit: Open) -> None:
    store(CHANGED)
    window = visit()
    window.sign_in()
    page = window.go(PAGE)
    page.click("#draft-advice")
    page.wait_for_url("**/changes/*/")
    expect(page.locator("main")).to_contain_text("Half-life: 4 days instead of 7 days.")
