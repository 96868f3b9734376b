"""Planned waits on the review of a draft, in a browser: the card follows the page, and fits every window and theme."""

from __future__ import annotations

import os
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import expect

from apps.accounts.actor import Actor
from apps.contrib.schedulers.passes import record_pass
from apps.contrib.schedulers.services import connect_scheduler
from apps.contrib.starts.models import StartPromise
from apps.core import clock
from apps.policies import services
from apps.policies.models import ChangeSet
from apps.policies.records import NewChangeSet
from tests.browser.conftest import NARROW, SET_THEME, THEMES, WIDE, Open
from tests.contrib.schedulers.reports import report
from tests.contrib.starts.draft_waits.conftest import MACHINE, hour_job
from tests.pages.grid import SLUG, Grid

SHOTS = os.environ.get("FAIRSHARE_SHOTS", "")
PEOPLE = (("alice", "atlas", 7), ("carol", "biomed", 5), ("dave", "cms", 9), ("erin", "cms", 2))
CMS = {"op": "set_shares", "entry": "/cms", "shares": 1}
BIOMED = {"op": "set_shares", "entry": "/biomed", "shares": 3_000}


def draft_with_a_queue(grid: Grid) -> ChangeSet:
    """Jobs of an hour that run one after the other, and a record of forty starts."""
    admin = Actor(user=grid.admin, via="page")
    connect_scheduler(policy_slug=SLUG, name="umea", settings={"mode": "on"}, at=grid.at, actor=admin)
    queue: list[dict[str, Any]] = []
    for user, group, n_jobs in PEOPLE:
        first = 100 + len(queue)
        queue += [hour_job(first + n, user, group) for n in range(n_jobs)]
    times = {"pass": uuid4(), "started_at": grid.at - timedelta(seconds=9), "ended_at": grid.at - timedelta(seconds=8)}
    sent = report(queue=queue, queue_state=MACHINE, **times)
    record_pass(name="umea", report=sent, body_sha256="", at=grid.at, actor=admin)
    row = StartPromise.objects.order_by("pk")[0]
    values = {f.attname: getattr(row, f.attname) for f in StartPromise._meta.concrete_fields if f.name != "id"}
    ended = {"left_in": 2, "has_started": True, "next_at": None, "due_at": None}
    for n in range(40):
        left_at = row.made_at + timedelta(minutes=3 * n)
        StartPromise.objects.create(**{**values, **ended, "job": f"past{n}", "plan_s": 3_600.0, "left_at": left_at})
    new = NewChangeSet(operations=[CMS, BIOMED], reason="cms winds down.")
    return services.make_change_set(policy_slug=SLUG, new=new, at=clock.now(), actor=admin)


@pytest.mark.deep
def test_the_review_answers_who_would_wait_longer(grid: Grid, visit: Open) -> None:
    draft = draft_with_a_queue(grid)
    window = visit()
    window.sign_in()
    page = window.go(f"/changes/{draft.pk}/")
    card = page.locator("#planned-waits")
    expect(card.get_by_test_id("answer")).to_contain_text("would wait longer")
    expect(card.get_by_test_id("planned-wait")).to_have_count(3)
    expect(card.get_by_test_id("plan-error")).to_contain_text("Of 40 planned starts in 90 days")
    window.look_at_widths()
    for width, theme in product((NARROW, WIDE), THEMES) if SHOTS else ():
        window.resize(width)
        page.evaluate(SET_THEME, theme)
        card.screenshot(path=Path(SHOTS) / f"card-{width}-{theme}.png")
    card.get_by_role("link", name="cms", exact=True).click()
    expect(page.get_by_test_id("planned-wait").first).to_contain_text("Users")
    window.look()
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / "page-1440.png", full_page=True)


def test_the_page_of_its_own_needs_no_scripts(grid: Grid, visit: Open) -> None:
    draft = draft_with_a_queue(grid)
    window = visit(scripts=False)
    window.sign_in()
    page = window.go(f"/changes/{draft.pk}/")
    page.locator("#planned-waits").get_by_role("link").click()
    expect(page.get_by_test_id("planned-wait")).to_have_count(3)
