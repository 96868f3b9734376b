"""Planned waits under a variant, in a browser, in each state of the queue: they fit every window and theme."""

from __future__ import annotations

import os
from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import expect

from apps.accounts.actor import Actor
from apps.contrib.lab.experiments.services import create_experiment
from apps.contrib.schedulers.models import AgentPass, Scheduler
from apps.core import clock
from apps.runs.services import work_due_runs
from tests.browser.conftest import NARROW, SET_THEME, THEMES, WIDE, Open, Visit
from tests.contrib.starts.browser.test_planned_waits import draft_with_a_queue
from tests.pages.grid import SLUG, Grid

SHOTS = os.environ.get("FAIRSHARE_SHOTS", "")
SPEC = {
    "workload": {
        "kind": "synthetic",
        "hours": 1,
        "sites": [{"name": "R1", "cpus": 2}],
        "streams": [{"entry": "/cms/dave", "every_s": 600}],
    },
    "variants": [
        {"entries": [{"entry": "/cms", "shares_times": 0.01}, {"entry": "/biomed", "shares_times": 60}]},
        {"settings": {"window": {"half_life_s": 3_600}}},
    ],
}


def look(window: Visit, name: str) -> None:
    window.look_at_widths()
    for width, theme in product((NARROW, WIDE), THEMES) if SHOTS else ():
        window.resize(width)
        window.page.evaluate(SET_THEME, theme)
        window.page.locator("#planned-waits").screenshot(path=Path(SHOTS) / f"lab-{name}-{width}-{theme}.png")


@pytest.mark.deep
def test_a_result_shows_planned_waits_in_each_state_of_the_queue(grid: Grid, visit: Open) -> None:
    draft_with_a_queue(grid)
    actor = Actor(user=grid.admin, via="page")
    made = create_experiment(policy_slug=SLUG, name="Try", spec=SPEC, at=clock.now(), actor=actor)
    work_due_runs(clock=clock.now)
    window = visit()
    window.sign_in()
    result = f"/policy/{SLUG}/lab/{made.pk}/"
    page = window.go(result)
    expect(page.get_by_test_id("planned-wait")).to_have_count(3)
    look(window, "ready")
    Scheduler.objects.update(mode="off")
    page = window.go(result)
    expect(page.get_by_test_id("plan-notes")).to_contain_text("So both plans show what it would do if it did.")
    look(window, "off")
    Scheduler.objects.update(mode="on")
    AgentPass.objects.update(received_at=clock.now() - timedelta(days=2))
    page = window.go(result)
    expect(page.get_by_test_id("answer")).to_contain_text("The agent of umea is silent")
    look(window, "silent")
    page = window.go(f"{result}?variant=2")
    expect(page.get_by_test_id("why-none")).to_contain_text("It changes how usage counts")
    look(window, "counts-otherwise")
