"""The board of allocations: which ones are of now, their numbers by hand, what can be given, and who sees what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.actor import COMMAND
from apps.contrib.allocations.board import AllocationBoard, BoardRow, get_allocation_board
from apps.contrib.allocations.capacities import CapacityTerms, add_capacity
from apps.contrib.allocations.current import current_of
from apps.contrib.allocations.outlook import State
from apps.contrib.allocations.pages.board_presenters import MOST_OPEN_ROWS, BoardGroup, board_groups
from apps.contrib.allocations.services import AllocationTerms, create_allocation
from apps.contrib.allocations.upcoming import get_ending_soon
from apps.policies.models import Allocation
from apps.policies.services import change_settings
from apps.policies.tree.stored import load_tree
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from tests import priority_site
from tests.priority_site import AS_OF, PROJECTS, Site

_clock, make_site = priority_site._clock, priority_site.make_site

pytestmark = pytest.mark.django_db
UTC_ZONE = ZoneInfo("UTC")
TODAY = AS_OF.date()
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
GPU = {"name": "GPU-hour", "symbol": "GPU-h", "weights": {"gpu_s": 1}}


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    site = make_site()
    site.publish(PROJECTS)
    site.map()
    site.recompute()
    return site


def allocate(site: Site, path: str, amount: float, first: date, last: date, unit: str = "core-h") -> Allocation:
    tree = load_tree(site.policy)
    i = tree.index_of_path(path)
    assert i is not None
    terms = AllocationTerms(starts_on=first, ends_on=last, amount=amount, unit=unit, reason="Round 7.")
    return create_allocation(policy_slug=site.slug, entry_uid=tree.uuid(i), terms=terms, at=AS_OF, actor=COMMAND)


def board(site: Site, **more: Any) -> AllocationBoard:
    return get_allocation_board(policy_slug=site.slug, zone=UTC_ZONE, actor=COMMAND, **more)


def row(site: Site, path: str, **more: Any) -> BoardRow:
    shown = board(site, **more)
    rows = [*shown.rows, *([shown.own] if shown.own else [])]
    return next(each for each in rows if each.path == path)


def made(first: int, last: int, amount: float = 1.0) -> Allocation:
    """Days from today; saved nowhere."""
    days = {"starts_on": TODAY + first * DAY, "ends_on": TODAY + last * DAY}
    return Allocation(pk=first * 1_000 + last, amount=amount, unit="core-h", **days)


def days_of(*allocations: Allocation) -> tuple[int, int, int | None] | None:
    """First and last day of those of now, and the first of the next, from today."""
    current = current_of(allocations, TODAY)
    if current is None:
        return None
    renewed = None if current.renewed_on is None else (current.renewed_on - TODAY).days
    return (current.period.starts_on - TODAY).days, (current.period.ends_on - TODAY).days, renewed


def test_allocations_of_today_are_one_and_those_that_begin_later_are_the_next() -> None:
    assert days_of(made(-100, 100), made(-10, 50)) == (-100, 100, None)
    assert days_of(made(-100, 100), made(101, 200)) == (-100, 100, 101)
    assert days_of(made(-200, -101), made(-100, 100)) == (-100, 100, None)


def test_an_ended_allocation_is_shown_for_sixty_days_or_until_the_next_begins() -> None:
    assert days_of(made(-100, -60)) == (-100, -60, None)
    assert days_of(made(-100, -61)) is None
    assert days_of(made(-100, -1), made(5, 50)) == (-100, -1, 5)
    assert days_of(made(-300, -100), made(5, 50)) == (5, 50, None)
    assert days_of(made(5, 50)) == (5, 50, None)
    assert days_of() is None


def test_short_allocations_beside_a_long_one_count_while_they_are_valid() -> None:
    assert days_of(made(-100, 100), made(-50, -40), made(-30, 20), made(90, 150)) == (-100, 100, 90)
    assert days_of(made(-100, -5), made(-20, -10), made(40, 50)) == (-100, -5, 40)


def test_numbers_of_a_row_equal_a_sum_by_hand(site: Site) -> None:
    allocate(site, "/physics", 1_000, TODAY - 50 * DAY, TODAY + 49 * DAY)
    site.job("alice", "physics", 400, ago_h=24 * 10)
    open_job = RecordRow(
        job="open",
        user="bob",
        group="physics",
        state="pending",
        submit_at=AS_OF - HOUR,
        start_at=None,
        end_at=None,
        cpus=10,
    )
    ingest_batch(source=site.source, rows=[open_job._replace(requested_s=36_000)], at=AS_OF)
    physics = row(site, "/physics")
    assert physics.used == pytest.approx(400)
    assert physics.due == pytest.approx(1_000 * (50 * 24 + 12) / (100 * 24), rel=1e-5)  # the clock is 2 s later
    assert (physics.held, physics.jobs, physics.unlimited_jobs) == (100, 1, 0)
    left_h = (50 - 0.5) * 24
    assert physics.at_end == pytest.approx(400 + 400 / (28 * 24) * left_h, rel=1e-5)
    assert physics.state == "runs_out"
    runs_out = AS_OF + 600 / (400 / (28 * 24)) * HOUR
    assert physics.runs_out_on == runs_out.date()
    assert physics.held_over == 0


def test_open_jobs_that_may_use_more_than_is_left_are_named(site: Site) -> None:
    allocate(site, "/physics", 100, TODAY - 50 * DAY, TODAY + 49 * DAY)
    pending: dict[str, Any] = {
        "state": "pending",
        "submit_at": AS_OF - HOUR,
        "start_at": None,
        "end_at": None,
        "cpus": 10,
    }
    jobs = [
        RecordRow(job="1", user="bob", group="physics", requested_s=72_000, **pending),
        RecordRow(job="2", user="bob", group="physics", **pending),
    ]
    ingest_batch(source=site.source, rows=jobs, at=AS_OF)
    site.job("alice", "physics", 20, ago_h=1)
    physics = row(site, "/physics")
    assert (physics.held, physics.jobs, physics.unlimited_jobs) == (200, 2, 1)
    assert physics.held_over == pytest.approx(120)


def test_units_stand_side_by_side_and_are_never_added(site: Site) -> None:
    change_settings(policy_slug=site.slug, settings={"units": [GPU]}, reason="x", at=AS_OF, actor=COMMAND)
    site.policy.refresh_from_db()
    days = (TODAY - 50 * DAY, TODAY + 49 * DAY)
    allocate(site, "/physics", 1_000, *days)
    allocate(site, "/physics", 64, *days, unit="GPU-h")
    site.job("alice", "physics", 40, ago_h=1, gpus=0.5)
    cpu, gpu = row(site, "/physics"), row(site, "/physics", unit="GPU-h")
    assert (cpu.allocated, cpu.used, gpu.allocated, gpu.used) == (1_000, 40, 64, 0.5)
    assert board(site).in_use == {"core-h", "GPU-h"}


def test_what_can_be_given_is_capacity_less_allocations_from_today_on(site: Site) -> None:
    add_capacity(
        policy_slug=site.slug, terms=CapacityTerms(starts_on=TODAY, per_hour=10, reason="x"), at=AS_OF, actor=COMMAND
    )
    allocate(site, "/physics", 1_000, TODAY, TODAY + 9 * DAY)
    give = board(site).to_give
    assert give is not None
    assert give.amount == pytest.approx(10 * 240 - 1_000)
    assert (give.of, give.of_capacity) == (2_400, True)
    allocate(site, "/physics/alice", 300, TODAY, TODAY + 9 * DAY)
    tree = load_tree(site.policy)
    own = board(site, of=tree.uuid(tree.index_of_path("/physics") or 0)).to_give
    assert own is not None
    assert (own.amount, own.of, own.of_capacity) == (700, 1_000, False)


def test_rows_are_ordered_by_what_needs_attention_and_cut_into_pages(site: Site) -> None:
    days = (TODAY - 50 * DAY, TODAY + 49 * DAY)
    allocate(site, "/biology", 1_000, *days)
    allocate(site, "/physics", 10, *days)
    site.job("alice", "physics", 40, ago_h=24)
    assert [(each.path, each.state) for each in board(site).rows] == [("/physics", "used_up"), ("/biology", "unused")]
    first = board(site, limit=1)
    assert (first.next_cursor, first.n_rows, [each.name for each in first.rows]) == ("1", 2, ["physics"])
    second = board(site, limit=1, cursor="1")
    assert (second.next_cursor, [each.name for each in second.rows]) == (None, ["biology"])
    assert second.n_of == {"used_up": 1, "unused": 1}


def test_children_without_a_current_allocation_are_counted_and_named_first_to_last(site: Site) -> None:
    names = {name for _uid, name in board(site).without}
    assert {"physics", "biology"} <= names
    allocate(site, "/physics", 10, TODAY - 50 * DAY, TODAY + 49 * DAY)
    shown = board(site)
    assert [name for _uid, name in shown.without] == sorted(names - {"physics"})
    assert shown.n_without == len(shown.without)
    tree = load_tree(site.policy)
    below = board(site, of=tree.uuid(tree.index_of_path("/physics") or 0))
    assert "physics" not in {name for _uid, name in below.without}


def test_ten_thousand_allocations_of_one_entry_cost_no_query_more(site: Site) -> None:
    tree = load_tree(site.policy)
    uid = tree.uuid(tree.index_of_path("/physics") or 0)
    site.job("alice", "physics", 40, ago_h=24)

    def n_queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            board(site)
        return len(captured)

    allocate(site, "/physics", 1, TODAY - DAY, TODAY + DAY)
    board(site)
    before = n_queries()
    Allocation.objects.bulk_create(
        Allocation(
            policy=site.policy,
            entry_uid=uid,
            starts_on=TODAY - (5_000 - n) * DAY,
            ends_on=TODAY - (5_000 - n) * DAY,
            amount=n + 1,
            unit="core-h",
            reason="Daily.",
            author_name="x",
            created_at=AS_OF,
        )
        for n in range(10_000)
    )
    physics = row(site, "/physics")
    assert (physics.starts_on, physics.ends_on) == (TODAY - DAY, TODAY + DAY)
    assert physics.allocated == 1 + 5_001, "yesterday's is over"
    assert n_queries() <= before + 1
    upcoming = get_ending_soon(policy_slug=site.slug, zone=UTC_ZONE, days=30, actor=COMMAND)
    ends = [event for event in upcoming.events if event.allocation is not None]
    assert all(event.is_covered for event in ends), "each day is followed by the next"
    assert len(ends) == 1 + 31, "from today on; what has ended and is followed isn't listed"


def test_what_begins_before_the_end_is_part_of_the_forecast(site: Site) -> None:
    """400 hours in 28 days: 1,000 run out; with the half of 1,200 that fall before their end they don't."""
    allocate(site, "/physics", 1_000, TODAY - 50 * DAY, TODAY + 49 * DAY)
    site.job("alice", "physics", 400, ago_h=24 * 10)
    alone = row(site, "/physics")
    allocate(site, "/physics", 1_200, TODAY + 30 * DAY, TODAY + 69 * DAY)
    both = row(site, "/physics")
    assert (alone.state, both.state) == ("runs_out", "unused")
    assert (both.allocated, both.remaining, both.renewed_on) == (1_000, 600, TODAY + 30 * DAY)
    assert both.unused == pytest.approx(1_000 + 600 - (alone.at_end or 0))


def test_hours_that_end_before_the_last_day_do_not_count_until_then(site: Site) -> None:
    """5 a day: of 1,000 hours 140 were used, 50 more will be, and the other 810 are lost; 100 last for 20 days then."""
    allocate(site, "/physics", 1_000, TODAY - 50 * DAY, TODAY + 9 * DAY)
    allocate(site, "/physics", 100, TODAY - 50 * DAY, TODAY + 99 * DAY)
    site.job("alice", "physics", 140, ago_h=24 * 10)
    physics = row(site, "/physics")
    assert (physics.allocated, physics.remaining, physics.state) == (1_100, 960, "runs_out")
    assert physics.runs_out_on is not None
    assert abs(physics.runs_out_on - (TODAY + 30 * DAY)) <= DAY
    assert physics.unused == pytest.approx(810, abs=5), "some hours of today are over"


def test_what_ended_cannot_be_given_and_no_more_than_what_is_left(site: Site) -> None:
    allocate(site, "/physics", 1_000, TODAY - 50 * DAY, TODAY + 49 * DAY)
    allocate(site, "/physics", 100, TODAY - 50 * DAY, TODAY - 20 * DAY)
    allocate(site, "/physics/alice", 100, TODAY - 50 * DAY, TODAY - 20 * DAY)
    allocate(site, "/physics/alice", 300, TODAY, TODAY + 49 * DAY)
    tree = load_tree(site.policy)
    group = tree.uuid(tree.index_of_path("/physics") or 0)
    site.job("bob", "physics", 150, ago_h=24 * 5)
    give = board(site, of=group).to_give
    assert give is not None
    assert (give.amount, give.of) == (700, 1_000)
    site.job("bob", "physics", 400, ago_h=24 * 6)
    give = board(site, of=group).to_give
    assert give is not None
    assert give.amount == pytest.approx(1_000 - 550)


def test_groups_are_open_while_their_rows_fit_the_first_screen_and_closed_ones_name_who_is_in_them(site: Site) -> None:
    allocate(site, "/physics", 1_000, TODAY - 50 * DAY, TODAY + 49 * DAY)
    shown = board(site)

    def grouped(n_of: dict[State, int]) -> dict[str, BoardGroup]:
        states = [state for state, n in n_of.items() for _ in range(n)]
        rows = [replace(shown.rows[0], state=state, name=f"{state}-{n}") for n, state in enumerate(states)]
        return {each.key: each for each in board_groups(replace(shown, rows=rows, n_rows=len(rows), n_of=n_of))}

    found = grouped({"runs_out": 3, "unused": 4, "on_course": 2})
    assert {key: each.is_open for key, each in found.items()} == {"run_out": True, "unused": True, "fine": False}
    assert found["unused"].names == "unused-3, unused-4, unused-5 and 1 more"
    assert found["fine"].names == "on_course-7, on_course-8"
    many = grouped({"runs_out": 20, "unused": 1})
    assert (len(many["run_out"].lines), len(many["run_out"].further)) == (MOST_OPEN_ROWS, 20 - MOST_OPEN_ROWS)
    assert many["run_out"].further_title == "12 more"
    assert (many["run_out"].is_open, many["unused"].is_open) == (True, False), "the first is open, however long"


def test_a_closed_group_says_what_ends_soon(site: Site) -> None:
    allocate(site, "/physics", 1_000, TODAY - 50 * DAY, TODAY + 9 * DAY)
    shown = board(site)
    (alone,) = board_groups(shown)
    assert alone.soon == f"physics {alone.lines[0].ends_soon}"
    rows = [replace(shown.rows[0], name=name) for name in "ab"]
    (both,) = board_groups(replace(shown, rows=rows, n_rows=2))
    assert both.soon == "2 end soon"
    allocate(site, "/physics", 1_000, TODAY + 10 * DAY, TODAY + 90 * DAY)
    assert board_groups(board(site))[0].soon == ""
