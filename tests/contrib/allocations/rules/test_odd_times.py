"""What time does to rules and balances: a leap second, another zone, twice an hour, and corrections below zero."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from io import BytesIO
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from apps.accounts.actor import COMMAND
from apps.contrib.allocations.board import get_allocation_board
from apps.contrib.allocations.models import RuleStep
from apps.contrib.allocations.rules.year import load_ruled, past_year
from apps.priorities.selectors.rows import open_view
from apps.usage.services import PushedRecords, push_records
from tests import priority_site
from tests.contrib.allocations.ruled_site import ZONE, act, allocate, publish_rules, rule
from tests.priority_site import AS_OF, PROJECTS, Site

_clock, make_site = priority_site._clock, priority_site.make_site

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
NOTIFY = rule("thresholds", {"levels": [{"percent": 0.001, "notify": True}]})


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    site = make_site()
    site.publish(PROJECTS)
    site.map()
    site.recompute()
    return site


def push(site: Site, **fields: Any) -> None:
    record = {"job": "1", "user": "alice", "group": "physics", "cpus": 1, **fields}
    pushed = PushedRecords(
        source_slug=site.source.slug,
        body_stream=BytesIO(json.dumps([record]).encode()),
        content_type="application/json",
        gzip=False,
        idempotency_key=None,
        atomic=True,
    )
    push_records(pushed, at=AS_OF, actor=COMMAND)


def left(site: Site, zone: ZoneInfo = ZONE) -> dict[str, Any]:
    board = get_allocation_board(policy_slug=site.slug, zone=zone, actor=COMMAND)
    return {row.path: (row.used, row.remaining) for row in board.rows}


def test_a_job_that_ends_in_a_leap_second_counts_on_the_day_that_it_ends(site: Site) -> None:
    """An hour until 23:59:60 on the last day of a half-year is an hour of that day, and of its allocation alone."""
    push(site, start="2026-10-31T23:00:00Z", end="2026-10-31T23:59:60Z")
    allocate(site, 10, starts_on=date(2026, 10, 1), ends_on=date(2026, 10, 31))
    allocate(site, 20, starts_on=date(2026, 11, 1), ends_on=date(2026, 11, 30))
    publish_rules(site, NOTIFY, rule("carry_over", {"percent": 100, "days": 30}))
    steps = act(site, AS_OF)
    assert [dict(step.facts["numbers"])["U"] for step in steps] == [1], "of October; November has used nothing"
    assert left(site)["/physics"] == (0, 29), "20 and the 9 that were carried over"


def test_a_rule_acts_once_however_often_it_is_called_in_an_hour(site: Site) -> None:
    site.job("alice", "physics", 90, ago_h=24)
    allocate(site, 100, starts_on=AS_OF.date() - 90 * DAY)
    publish_rules(
        site, rule("thresholds", {"levels": [{"percent": 75, "shares": 5}]}), rule("aging", {"interval_days": 9})
    )
    n_steps = len(act(site, AS_OF))
    assert n_steps == 2
    for minutes in (0, 20, 40, 59):
        assert act(site, AS_OF + timedelta(minutes=minutes)) == []
    assert RuleStep.objects.count() == n_steps


def test_usage_that_is_corrected_comes_back_and_is_never_more_than_was_allocated(site: Site) -> None:
    """30 hours are corrected to 10 and then withdrawn: 70, 90 and 100 of 100 are left, and the level is taken back."""
    day = AS_OF - 5 * DAY
    site.job("carol", "biology", 1)
    allocate(site, 100, starts_on=AS_OF.date() - 50 * DAY)
    publish_rules(site, rule("thresholds", {"levels": [{"percent": 25, "shares": 5}]}))
    times = {"start": f"{day:%Y-%m-%d}T00:00:00Z", "end": f"{day:%Y-%m-%d}T10:00:00Z"}
    seen = []
    versions: list[dict[str, Any]] = [{"cpus": 3}, {"cpus": 1, "revision": 1}, {"state": "withdrawn", "revision": 2}]
    for at, fields in enumerate(versions):
        push(site, **times, **fields)
        seen.append((left(site)["/physics"], [step.level for step in act(site, AS_OF + at * DAY)]))
    assert seen == [((30, 70), [1]), ((10, 90), [0]), ((0, 100), [])]


def test_another_zone_moves_the_bounds_of_days_and_counts_each_hour_once(site: Site) -> None:
    """Two allocations follow each other: an hour at midnight is charged to one of them in any zone."""
    midnight = datetime(2026, 11, 10, tzinfo=UTC)
    for hour in range(-14, 14):
        start = midnight + timedelta(hours=hour)
        push(
            site,
            job=str(hour),
            start=f"{start:%Y-%m-%dT%H:%M:%SZ}",
            end=f"{start:%Y-%m-%dT%H}:59:59Z",
            cpus=3600 / 3599,
        )
    for name, hours in (("UTC", 14), ("Pacific/Kiritimati", 28), ("America/Los_Angeles", 6), ("Asia/Kolkata", 19)):
        zone = ZoneInfo(name)
        allocate(
            site, 50, starts_on=date(2026, 11, 10), ends_on=date(2026, 11, 30), unit="core-h"
        ) if name == "UTC" else None
        used, remaining = left(site, zone)["/physics"]
        assert (used, remaining) == pytest.approx((hours, 50 - hours)), name


def test_rules_count_all_usage_of_an_allocation_that_began_long_ago(site: Site) -> None:
    """Of 120 hours of six and five years ago one that has ended paid for 100; 30 and 10 were used since."""
    allocate(site, 1_000, starts_on=date(2020, 3, 7), ends_on=date(2027, 12, 31))
    allocate(site, 100, starts_on=date(2020, 5, 1), ends_on=date(2022, 6, 30))
    for year, hours in ((2020, 70), (2021, 50), (2023, 30)):
        site.job("alice", "physics", hours, ago_h=(AS_OF.date() - date(year, 8, 1)).days * 24)
    site.job("alice", "physics", 10, ago_h=24)
    publish_rules(site, NOTIFY)
    (step,) = act(site)
    assert dict(step.facts["numbers"])["U"] == 60
    assert left(site)["/physics"] == (60, 940)


def test_the_past_year_knows_what_allocations_that_ended_before_it_paid_for(site: Site) -> None:
    allocate(site, 1_000, starts_on=date(2025, 1, 1), ends_on=date(2026, 12, 31))
    allocate(site, 100, starts_on=date(2025, 1, 1), ends_on=date(2025, 9, 30))
    site.job("alice", "physics", 100, ago_h=(AS_OF.date() - date(2025, 8, 1)).days * 24)
    site.job("alice", "physics", 60, ago_h=(AS_OF.date() - date(2026, 6, 1)).days * 24)
    publish_rules(site, rule("thresholds", {"levels": [{"percent": 5, "notify": True}]}, mode="shadow"))
    steps = past_year(load_ruled(open_view(policy_slug=site.slug, actor=COMMAND), ZONE))
    assert [(step.on, dict(step.numbers)["U"]) for step in steps] == [(date(2026, 6, 1), 60)]
