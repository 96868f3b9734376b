"""The past year and the year ahead of rules, from usage in the database."""

from __future__ import annotations

from datetime import date, timedelta
from zoneinfo import ZoneInfo

import pytest

from apps.accounts.actor import COMMAND
from apps.contrib.allocations.models import RuleStep
from apps.contrib.allocations.rules.year import load_ruled, past_year, visible_steps, year_ahead
from apps.policies.models import ChangeSet
from apps.priorities.selectors.rows import open_view
from tests import priority_site
from tests.contrib.allocations.ruled_site import act, allocate, publish_rules, rule
from tests.priority_site import AS_OF, Site, finished

_clock = priority_site._clock
make_site, site = priority_site.make_site, priority_site.site

UTC = ZoneInfo("UTC")
TODAY = AS_OF.date()  # 20 November 2026


@pytest.fixture
def steady(site: Site) -> Site:
    """Physics used 55 core-hours today, and 10 on each of the 27 days before, at 06:00 to 07:00."""
    site.jobs([finished("alice", "physics", 10, ago_h=24 * ago_d + 5) for ago_d in range(1, 28)])
    return site


def steps(site: Site, when: str = "past") -> list[tuple[date, str, dict[str, float]]]:
    view = open_view(policy_slug=site.slug, actor=COMMAND)
    ruled = load_ruled(view, UTC)
    shown = visible_steps(view, past_year(ruled) if when == "past" else year_ahead(ruled))
    return [(step.on, step.rule, dict(step.numbers)) for step in shown]


def test_the_past_year_is_what_the_rule_would_have_done(steady: Site) -> None:
    """From 1 November, 200 hours in 20 days: on the 6th 50 aged and 50 were used, on the 11th and 16th 100 and 150."""
    allocate(steady, 200, starts_on=date(2026, 11, 1), ends_on=date(2026, 11, 20))
    publish_rules(steady, rule("aging", {"interval_days": 5}, mode="shadow"))
    past = steps(steady)
    assert [(on, numbers["U(t)"], numbers["aged"], numbers["A(t)"]) for on, _rule, numbers in past] == [
        (date(2026, 11, 6), 50, 50, 150),
        (date(2026, 11, 11), 100, 100, 100),
        (date(2026, 11, 16), 150, 150, 50),
    ]
    assert RuleStep.objects.count() == 0
    assert not ChangeSet.objects.filter(origin="allocation").exists()


def test_the_year_ahead_goes_on_at_the_mean_of_28_days(steady: Site) -> None:
    """325 hours in 28 days are 11.607 a day: of 400, 90 % are used after three days more, 100 % after seven."""
    allocate(steady, 400, starts_on=TODAY - timedelta(days=27), ends_on=TODAY + timedelta(days=60))
    levels = {"levels": [{"percent": 90}, {"percent": 100, "shares": 1}]}
    publish_rules(steady, rule("thresholds", levels, mode="shadow", name="Used up"))
    ahead = steps(steady, "ahead")
    assert [on for on, _rule, _numbers in ahead] == [TODAY + timedelta(days=4), TODAY + timedelta(days=7)]
    assert ahead[0][2]["U"] == pytest.approx(325 + 4 * 325 / 28)


def test_what_was_taken_is_not_ahead_any_more(steady: Site) -> None:
    allocate(steady, 320, starts_on=TODAY - timedelta(days=27), ends_on=TODAY + timedelta(days=60))
    publish_rules(steady, rule("thresholds", {"levels": [{"percent": 100, "shares": 1}]}, name="Used up"))
    assert [on for on, _rule, _numbers in steps(steady, "ahead")] == [TODAY]
    assert len(act(steady)) == 1
    assert steps(steady, "ahead") == []


def test_each_rule_in_shadow_is_tried_beside_those_that_are_on_without_its_enemies(steady: Site) -> None:
    allocate(steady, 200, starts_on=date(2026, 11, 1), ends_on=date(2026, 11, 30))
    aging = rule("aging", {"interval_days": 10}, name="Aging")
    portions = rule("portions", {"every": "month"}, name="Portions", mode="shadow")
    publish_rules(steady, aging, portions)
    past = steps(steady)
    assert [(on.day, name) for on, name, _numbers in past] == [(1, "Portions"), (11, "Aging")]
    assert next(numbers["A"] for _on, name, numbers in past if name == "Portions") == 200
