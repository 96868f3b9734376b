"""The table of allocations: allocated to delivered, on a small site with real records."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from apps.accounts.actor import Actor
from apps.accounts.models import Account
from apps.contrib.allocations.capacities import CapacityTerms, add_capacity
from apps.contrib.allocations.periods import Period
from apps.contrib.allocations.services import AllocationTerms, create_allocation
from apps.contrib.allocations.table import AllocationRow, AllocationTable, get_allocation_table
from apps.policies.tree.stored import load_tree
from apps.priorities.delivered_usage import load_delivered
from apps.usage.models import Overlap, Record
from tests import priority_site
from tests.examples import examples
from tests.priority_site import AS_OF, PROJECTS, Site, children

_clock, as_alice, as_eva = priority_site._clock, priority_site.as_alice, priority_site.as_eva
make_site, site = priority_site.make_site, priority_site.site

UTC_ZONE = ZoneInfo("UTC")
YEAR = Period(date(2026, 1, 1), date(2026, 12, 31))
HOURS_BY_NOW = (AS_OF + timedelta(seconds=2) - YEAR.instants(UTC_ZONE)[0]) / timedelta(hours=1)


def allocate(site: Site, eva: Actor, path: str, amount: float, *, period: Period = YEAR) -> None:
    tree = load_tree(site.policy)
    i = tree.index_of_path(path)
    assert i is not None
    create_allocation(
        policy_slug=site.slug,
        entry_uid=tree.uuid(i),
        terms=AllocationTerms(starts_on=period.starts_on, ends_on=period.ends_on, amount=amount, reason="test"),
        at=AS_OF,
        actor=eva,
    )


def capacity(site: Site, eva: Actor, cores: float) -> None:
    add_capacity(
        policy_slug=site.slug,
        terms=CapacityTerms(starts_on=YEAR.starts_on, per_hour=cores, reason="test"),
        at=AS_OF,
        actor=eva,
    )


def table(site: Site, actor: Actor, period: Period = YEAR, **more: Any) -> AllocationTable:
    return get_allocation_table(policy_slug=site.slug, period=period, zone=UTC_ZONE, actor=actor, **more)


def rows(found: AllocationTable) -> dict[str, AllocationRow]:
    return {row.path: row for row in found.rows}


def test_delivered_is_the_sum_of_all_records_of_the_subtree(site: Site, as_eva: Actor) -> None:
    site.job("alice", "physics", 7, ago_h=2000)  # long before the window of the policy, and in this year
    allocate(site, as_eva, "/physics", 1000)
    allocate(site, as_eva, "/physics/alice", 600)
    found = rows(table(site, as_eva))
    recorded: dict[str, float] = {}
    for record in Record.objects.select_related("account"):
        assert record.start_at is not None
        assert record.end_at is not None
        amount = record.cpus * (record.end_at - record.start_at) / timedelta(hours=1)
        for path in (f"/{record.account.group_name}", f"/{record.account.group_name}/{record.account.user_name}"):
            recorded[path] = recorded.get(path, 0) + amount
    assert recorded["/physics"] == 62
    assert found["/physics"].delivered == pytest.approx(recorded["/physics"])
    assert found["/biology"].delivered == pytest.approx(recorded["/biology"])
    assert found["/physics/alice"].delivered == pytest.approx(recorded["/physics/alice"])
    assert found["/physics"].remaining == pytest.approx(1000 - 62)


def test_only_days_of_an_allocation_count_for_it(site: Site, as_eva: Actor) -> None:
    site.job("alice", "physics", 7, ago_h=2000)
    today = Period(AS_OF.date(), AS_OF.date())
    allocate(site, as_eva, "/physics", 100, period=today)
    found = rows(table(site, as_eva))
    assert found["/physics"].delivered == pytest.approx(55)
    assert found["/physics"].days == today
    assert found["/physics"].due == pytest.approx(100 * 12 / 24, rel=1e-4)
    assert found["/physics"].pace == "ahead"


def test_what_is_expected_is_shares_times_capacity_times_time(site: Site, as_eva: Actor) -> None:
    capacity(site, as_eva, 10)
    found = table(site, as_eva)
    assert found.capacity == 10 * 8760
    physics = rows(found)["/physics"]
    assert physics.expected == pytest.approx(0.6 * 10 * HOURS_BY_NOW)
    assert physics.expected_whole == pytest.approx(0.6 * 10 * 8760)
    assert (physics.allocated, physics.due, physics.pace) == (None, None, "behind")


def test_suballocated_and_unallocated_hours_are_listed_by_level_and_excess_is_flagged(
    site: Site, as_eva: Actor
) -> None:
    capacity(site, as_eva, 1)
    allocate(site, as_eva, "/physics", 5000)
    allocate(site, as_eva, "/physics/alice", 4000)
    allocate(site, as_eva, "/physics/bob", 1500)
    allocate(site, as_eva, "/biology/carol", 3000)  # biology itself has nothing: it comes out of the whole
    found = table(site, as_eva)
    by_path = rows(found)
    assert [row.path for row in found.rows] == [
        "/biology",
        "/biology/carol",
        "/physics",
        "/physics/alice",
        "/physics/bob",
    ]
    assert (found.group.sub_allocated, found.group.unallocated) == (8000, 760)
    assert (by_path["/physics"].over_committed, by_path["/physics"].unallocated) == (500, 0)
    assert [row.path for row in found.is_over] == ["/physics"]
    assert by_path["/physics/alice"].share_of_parent == 0.8
    assert by_path["/physics"].share_of_parent == pytest.approx(5000 / 8760)
    assert (by_path["/biology"].sub_allocated, by_path["/biology"].unallocated) == (3000, None)
    narrow = table(site, as_eva, of=by_path["/physics"].entry)
    assert [row.path for row in narrow.rows] == ["/physics/alice", "/physics/bob"]
    assert narrow.group.over_committed == 500


def test_the_root_is_on_pace_if_expected_usage_was_delivered(site: Site, as_eva: Actor) -> None:
    """100 core-hours were delivered; of those only 55 are of /physics, to which half as much is allocated by now."""
    capacity(site, as_eva, 100 / HOURS_BY_NOW)
    allocate(site, as_eva, "/physics", 27.5 / HOURS_BY_NOW * 8760)
    found = table(site, as_eva)
    assert found.group.due == pytest.approx(27.5, rel=1e-3), "of what is allocated"
    assert found.group.expected == pytest.approx(found.group.delivered)
    assert (found.group.pace, rows(found)["/physics"].pace) == ("on", "ahead")


def test_delivered_on_allocations_counts_only_entries_with_an_allocation(site: Site, as_eva: Actor) -> None:
    """100 core-hours were delivered: 55 of /physics, of which none counts, and those of /biology/dan on his day."""
    today = Period(AS_OF.date(), AS_OF.date())
    allocate(site, as_eva, "/biology", 240)
    allocate(site, as_eva, "/biology/dan", 24, period=today)  # within that of /biology, which counts once
    found = table(site, as_eva)
    by_path, on = rows(found), found.on_allocations
    assert on is not None
    assert on.delivered == by_path["/biology"].delivered == pytest.approx(45)
    assert on.delivered < (found.group.delivered or 0)
    assert on.due == pytest.approx(found.group.due)
    assert on.pace == "behind" if on.due > 45 * 1.05 else on.pace in ("on", "ahead")
    narrow = table(site, as_eva, of=by_path["/biology"].entry).on_allocations
    assert narrow is not None
    assert narrow.delivered == by_path["/biology/dan"].delivered


def test_an_allocation_longer_than_the_period_shows_its_total(site: Site, as_eva: Actor) -> None:
    allocate(site, as_eva, "/physics", 600, period=Period(date(2026, 7, 1), date(2027, 6, 30)))
    allocate(site, as_eva, "/biology", 100)
    found = rows(table(site, as_eva))
    assert found["/physics"].beyond == (600, date(2027, 6, 30))
    assert found["/physics"].allocated == pytest.approx(600 * 184 / 365, rel=1e-2)
    assert found["/biology"].beyond is None


def test_partial_visibility_hides_delivered_on_allocations(site: Site, as_eva: Actor, as_alice: Actor) -> None:
    site.policy.visibility = "path"
    site.policy.save()
    Account.objects.filter(user_name="alice").update(person=as_alice.user)
    allocate(site, as_eva, "/physics", 5000)
    allocate(site, as_eva, "/biology/dan", 10)
    assert table(site, as_eva).on_allocations is not None
    assert table(site, as_alice).on_allocations is None


def test_expected_and_delivered_begin_when_an_entry_joins(make_site: Callable[..., Site], as_eva: Actor) -> None:
    site = make_site()
    site.publish(PROJECTS, at=AS_OF - timedelta(days=10))
    site.job("carl", "chemistry", 8, ago_h=48)  # before it joined
    capacity(site, as_eva, 10)
    before = rows(table(site, as_eva))["/physics"]
    joined = AS_OF - timedelta(hours=6)
    site.publish([*PROJECTS, *children(chemistry={"": 100, "carl": 1})], at=joined)
    site.map()
    found = rows(table(site, as_eva))
    late = found["/chemistry"]
    assert late.expected == pytest.approx((late.target_global or 0) * 10 * 6, rel=1e-3)
    assert late.delivered == 0
    rest = (YEAR.instants(UTC_ZONE)[1] - joined) / timedelta(hours=1)
    assert late.expected_whole == pytest.approx((late.target_global or 0) * 10 * rest, rel=1e-6)
    physics = found["/physics"]
    since_midnight = AS_OF.hour + AS_OF.minute / 60
    hours_by_target = ((before.target_global, HOURS_BY_NOW - since_midnight), (physics.target_global, since_midnight))
    assert physics.expected == pytest.approx(sum(10 * (target or 0) * hours for target, hours in hours_by_target))
    assert physics.target_global != before.target_global, "only the day of the change has the new target"


def test_due_hours_disclose_no_more_than_allocations(site: Site, as_eva: Actor, as_alice: Actor) -> None:
    site.policy.visibility = "path"
    site.policy.save()
    Account.objects.filter(user_name="alice").update(person=as_alice.user)
    capacity(site, as_eva, 1)
    allocate(site, as_eva, "/physics", 5000)
    assert table(site, as_alice).group.due == pytest.approx(5000 / 8760 * HOURS_BY_NOW)
    allocate(site, as_eva, "/biology", 3000)
    hidden = table(site, as_alice).group
    assert (hidden.sub_allocated, hidden.due) == (None, None)
    seen = table(site, as_eva).group
    assert seen.due == pytest.approx(8000 / 8760 * HOURS_BY_NOW)


def test_without_capacity_allocations_or_usage_values_are_empty(make_site: Callable[..., Site], as_eva: Actor) -> None:
    site = make_site()
    site.publish(PROJECTS)
    site.map()
    found = table(site, as_eva)
    assert (found.capacity, found.has_usage, found.is_over) == (None, False, [])
    physics = rows(found)["/physics"]
    unknown = (physics.allocated, physics.unallocated, physics.expected, physics.delivered)
    assert (*unknown, physics.remaining) == (None, None, None, None, None)
    assert physics.pace == "unknown"


@pytest.mark.parametrize(
    ("amount", "pace"),
    [(10, "ahead"), (55 * 24 / 12, "on"), (1000, "behind")],
)
def test_pace_compares_delivered_with_the_evenly_spread_allocation(
    site: Site, as_eva: Actor, amount: float, pace: str
) -> None:
    today = Period(AS_OF.date(), AS_OF.date())
    allocate(site, as_eva, "/physics", amount, period=today)
    allocate(site, as_eva, "/biology/dan", amount, period=today)
    tomorrow = Period(AS_OF.date() + timedelta(days=1), AS_OF.date() + timedelta(days=1))
    allocate(site, as_eva, "/biology/carol", amount, period=tomorrow)
    found = rows(table(site, as_eva))
    assert found["/physics"].pace == pace
    assert found["/biology/dan"].pace == "idle"
    assert (found["/biology/carol"].pace, found["/biology/carol"].delivered) == ("not_begun", 0)


def test_unmapped_usage_is_shown_with_full_visibility_only(site: Site, as_eva: Actor, as_alice: Actor) -> None:
    site.job("eve", "alchemy", 5)
    assert table(site, as_eva).unmapped == pytest.approx(5)
    site.policy.visibility = "path"
    site.policy.save()
    Account.objects.filter(user_name="alice").update(person=as_alice.user)
    mine = table(site, as_alice)
    assert mine.unmapped is None


def test_unmapped_usage_is_that_of_the_period_also_if_an_entry_joined_later(site: Site, as_eva: Actor) -> None:
    site.job("eve", "alchemy", 5)
    site.publish([*PROJECTS, *children(chemistry={"": 100})])
    assert table(site, as_eva).unmapped == pytest.approx(5)
    assert table(site, as_eva, Period(date(2025, 1, 1), date(2025, 12, 31))).unmapped == 0


def test_a_member_sees_the_own_path_without_sums_of_others(site: Site, as_eva: Actor, as_alice: Actor) -> None:
    site.policy.visibility = "path"
    site.policy.save()
    Account.objects.filter(user_name="alice").update(person=as_alice.user)
    capacity(site, as_eva, 1)
    allocate(site, as_eva, "/physics", 5000)
    allocate(site, as_eva, "/physics/alice", 4000)
    allocate(site, as_eva, "/physics/bob", 2000)
    found = table(site, as_alice)
    assert [row.path for row in found.rows] == ["/physics", "/physics/alice"]
    physics = rows(found)["/physics"]
    assert physics.allocated == 5000
    assert physics.sub_allocated is physics.unallocated is physics.over_committed is None
    assert not any(row.may_allocate for row in found.rows)
    assert (found.may_add_capacity, found.is_over) == (False, [])


def test_long_tables_are_paged(site: Site, as_eva: Actor) -> None:
    allocate(site, as_eva, "/physics/alice", 10)
    whole = [row.path for row in table(site, as_eva, limit=None).rows]
    first = table(site, as_eva, limit=2)
    second = table(site, as_eva, limit=2, cursor=first.next_cursor)
    assert [row.path for row in (*first.rows, *second.rows)] == whole
    assert (first.n_rows, second.next_cursor) == (3, None)


@examples(15, suppress=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(-2100, 5), max_size=4))
def test_periods_add_up_to_the_whole_to_the_second(site: Site, cuts: list[int]) -> None:
    if not Record.objects.filter(job__contains="early").exists():
        site.job("alice", "physics", 7, ago_h=2000, job="early")
    tree = load_tree(site.policy)
    edges = [AS_OF + timedelta(hours=hours) for hours in (-2200, *cuts, 6)]
    found = load_delivered(policy=site.policy, tree=tree, entries=range(len(tree)), edges=edges)
    with connection.cursor() as cursor:
        cursor.execute("SELECT sum(cpu_s) FROM usage_bucket")
        total = cursor.fetchone()[0]
    assert found.below[:, 0].sum() + found.unmapped.sum() == pytest.approx(total)
    assert found.between(0, edges[0], edges[-1]) == pytest.approx(total)


def test_overlapping_hours_are_not_delivered_twice(site: Site) -> None:
    tree = load_tree(site.policy)
    edges = [AS_OF - timedelta(hours=2200), AS_OF + timedelta(hours=6)]
    found = load_delivered(policy=site.policy, tree=tree, entries=[0], edges=edges)
    assert found.below.sum() == 100 * 3600
    Overlap.objects.create(
        site="", kept=site.source, held=site.source, from_at=edges[0], to_at=edges[1], found_at=AS_OF
    )  # which source was first doesn't matter here
    held = load_delivered(policy=site.policy, tree=tree, entries=[0], edges=edges)
    assert held.below.sum() == 0
    Overlap.objects.update(state=Overlap.State.COUNTED)
    assert load_delivered(policy=site.policy, tree=tree, entries=[0], edges=edges).below.sum() == 100 * 3600
