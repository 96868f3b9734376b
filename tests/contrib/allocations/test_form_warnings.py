"""What a form for an allocation warns of: more than is there, an end, and an allocation that runs out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from apps.accounts.actor import COMMAND
from apps.contrib.allocations.form_warnings import FormWarning, warnings_of
from apps.contrib.allocations.loaded import open_allocations
from apps.contrib.allocations.periods import Period
from apps.policies.tree.stored import load_tree
from tests import priority_site
from tests.contrib.allocations.test_board import TODAY, UTC_ZONE, allocate
from tests.priority_site import PROJECTS, Site

_clock, make_site = priority_site._clock, priority_site.make_site
pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
DAYS = Period(TODAY, TODAY + 89 * DAY)


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    site = make_site()
    site.publish(PROJECTS)
    site.map()
    site.recompute()
    return site


def warnings(site: Site, path: str, amount: float | None, days: Period | None = DAYS) -> list[FormWarning]:
    tree = load_tree(site.policy)
    uid = tree.uuid(tree.index_of_path(path) or 0)
    loaded = open_allocations(policy_slug=site.slug, actor=COMMAND)
    return warnings_of(loaded=loaded, entry_uid=uid, unit="core-h", days=days, amount=amount, zone=UTC_ZONE)


def test_more_than_the_parent_has_left_on_these_days_is_named(site: Site) -> None:
    allocate(site, "/physics", 1_000, DAYS.starts_on, DAYS.ends_on)
    allocate(site, "/physics/alice", 700, DAYS.starts_on, DAYS.ends_on)
    assert warnings(site, "/physics/bob", 300) == []
    (over,) = warnings(site, "/physics/bob", 301)
    assert (over.key, over.name, over.amount, over.of) == ("over", "physics", 300, 1_000)
    assert warnings(site, "/physics/bob", None) == [], "nothing typed"
    assert warnings(site, "/biology", 1e9) == [], "no capacity is recorded: nothing is known"


def test_an_end_of_the_parent_before_the_last_day_is_named(site: Site) -> None:
    allocate(site, "/physics", 1_000, TODAY, TODAY + 30 * DAY)
    assert [each.key for each in warnings(site, "/physics/bob", 1)] == ["parent_ends"]
    assert warnings(site, "/physics/bob", 1, Period(TODAY, TODAY + 30 * DAY)) == []
    allocate(site, "/physics", 1_000, TODAY + 31 * DAY, TODAY + 90 * DAY)
    assert warnings(site, "/physics/bob", 1) == [], "it is renewed"


def test_an_own_allocation_that_is_about_to_end_or_used_up_is_named(site: Site) -> None:
    allocate(site, "/biology", 10, TODAY - 50 * DAY, TODAY + 60 * DAY)
    assert [(each.key, each.on) for each in warnings(site, "/biology", 1)] == [("own_ends", TODAY + 60 * DAY)]
    site.job("carol", "biology", 40, ago_h=24)
    keys = [each.key for each in warnings(site, "/biology", 1)]
    assert keys == ["own_runs_out", "own_ends"]
