"""Core-hours by week on a small site with real records: sums agree with the table, and nothing of what isn't shown."""

from __future__ import annotations

from datetime import date, timedelta
from zoneinfo import ZoneInfo

import pytest

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.contrib.allocations.periods import Period
from apps.contrib.allocations.services import AllocationTerms, create_allocation
from apps.contrib.allocations.table import get_allocation_table
from apps.contrib.allocations.usage import get_core_hour_weeks
from apps.core.errors import Invalid
from apps.policies.models import Grant
from apps.policies.tree.stored import load_tree
from apps.usage.models import Source
from tests import priority_site
from tests.grants import make_grant
from tests.priority_site import AS_OF, Site

_clock, as_alice, as_eva = priority_site._clock, priority_site.as_alice, priority_site.as_eva
make_site, site = priority_site.make_site, priority_site.site

UTC_ZONE = ZoneInfo("UTC")
YEAR = Period(date(2026, 1, 1), date(2026, 12, 31))


def test_weeks_add_up_to_the_table_by_entry_by_site_and_by_allocation(site: Site, as_eva: Actor) -> None:
    site.job("alice", "physics", 7, ago_h=2000)
    peer = Source.objects.create(slug="north", namespace="c1", origin="north.example", site="North", created_at=AS_OF)
    site.job("bob", "physics", 5, ago_h=30, source=peer)
    tree = load_tree(site.policy)
    physics = tree.uuid(tree.index_of_path("/physics") or 0)
    biology = tree.uuid(tree.index_of_path("/biology") or 0)
    for uid, period in ((physics, YEAR), (biology, Period(date(2026, 11, 18), YEAR.ends_on))):
        create_allocation(
            policy_slug=site.slug,
            entry_uid=uid,
            terms=AllocationTerms(starts_on=period.starts_on, ends_on=period.ends_on, core_h=500, reason="test"),
            at=AS_OF,
            actor=as_eva,
        )
    found = get_core_hour_weeks(policy_slug=site.slug, period=YEAR, zone=UTC_ZONE, actor=as_eva)
    table = get_allocation_table(policy_slug=site.slug, period=YEAR, zone=UTC_ZONE, actor=as_eva)
    rows = {row.name: row for row in table.rows}

    assert found.edges[0].date() == YEAR.starts_on
    assert all(edge.weekday() == 0 for edge in found.edges[1:-1])
    assert {len(one.core_h) for one in (*found.entries, *found.sites)} == {len(found.edges) - 1}
    by_name = {one.name: one.total_core_h for one in found.entries}
    assert table.group.delivered_core_h
    assert sum(by_name.values()) == pytest.approx(table.group.delivered_core_h)
    assert by_name["physics"] == pytest.approx(rows["physics"].delivered_core_h)
    assert {one.name: one.total_core_h for one in found.sites}["North"] == pytest.approx(5)
    assert sum(one.total_core_h for one in found.sites) == pytest.approx(table.group.delivered_core_h)

    left = {one.name: one for one in found.allocations_left}
    assert set(left) == {"physics", "biology"}
    for name, one in left.items():
        assert one.left_core_h[-1] == pytest.approx(rows[name].remaining_core_h)
        assert one.due_core_h == pytest.approx(rows[name].due_core_h)
        assert one.left_core_h[0] == pytest.approx(500), "nothing is counted before its first day"
    assert left["biology"].at[0].date() == date(2026, 11, 18)


def test_viewers_of_totals_get_no_weeks(site: Site, as_eva: Actor) -> None:
    site.policy.visibility = "path"
    site.policy.save(update_fields=["visibility"])
    viewer = User.objects.create_user("vic", "vic@example.org", "a long pass phrase")
    uid = load_tree(site.policy).uuid(0)
    make_grant(viewer, uid, Grant.Role.VIEWER, policy=site.policy, verbs=[Grant.Verb.VIEW_AGGREGATE], at=AS_OF)
    actor = Actor(user=viewer, via="page")
    found = get_core_hour_weeks(policy_slug=site.slug, period=YEAR, zone=UTC_ZONE, actor=actor)
    assert found.entries == ()
    assert found.sites == ()
    assert found.allocations_left == ()
    assert found.rest is None
    assert found.n_hidden == 2


def test_a_period_over_five_years_is_refused_and_a_future_one_is_empty(site: Site, as_eva: Actor) -> None:
    with pytest.raises(Invalid, match="longer than 5 years"):
        get_core_hour_weeks(
            policy_slug=site.slug, period=Period(date(1970, 1, 1), YEAR.ends_on), zone=UTC_ZONE, actor=as_eva
        )
    later = Period(AS_OF.date() + timedelta(days=3), AS_OF.date() + timedelta(days=9))
    assert get_core_hour_weeks(policy_slug=site.slug, period=later, zone=UTC_ZONE, actor=as_eva).edges == ()
