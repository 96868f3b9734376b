"""Hours of days, sums of allocations, and core-hours as shares: pure arithmetic against slow and readable twins."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.contrib.allocations.capacities import capacity_in
from apps.contrib.allocations.conversion import (
    Conversion,
    convert,
    list_conversion_steps,
    operations_of,
)
from apps.contrib.allocations.periods import DAY, Period, begins_at, day_of, uncovered, whole_year
from apps.contrib.allocations.summary import add_up, allocated_in
from apps.core.errors import Invalid
from apps.policies.models import Allocation, Capacity
from apps.policies.operations.apply import tree_after
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.working_tree import columns_of
from tests.examples import new_uid

STOCKHOLM, BEIRUT, LORD_HOWE = ZoneInfo("Europe/Stockholm"), ZoneInfo("Asia/Beirut"), ZoneInfo("Australia/Lord_Howe")
UTC_ZONE = ZoneInfo("UTC")
DAYS = st.dates(date(2020, 1, 1), date(2030, 12, 31))
PERIODS = st.tuples(DAYS, DAYS).map(lambda two: Period(min(two), max(two)))
ZONES = st.sampled_from(
    [UTC_ZONE, STOCKHOLM, BEIRUT, LORD_HOWE, ZoneInfo("Asia/Kolkata"), ZoneInfo("America/Santiago")]
)


def test_clock_changes_keep_the_hours_of_a_year_and_leap_years_add_a_day() -> None:
    assert whole_year(date(2026, 5, 5)).hours(STOCKHOLM) == 8760
    assert whole_year(date(2028, 5, 5)).hours(STOCKHOLM) == 8784
    assert Period(date(2026, 3, 29), date(2026, 3, 29)).hours(STOCKHOLM) == 23
    assert Period(date(2026, 10, 25), date(2026, 10, 25)).hours(STOCKHOLM) == 25
    assert Period(date(2026, 1, 1), date(2026, 6, 30)).hours(STOCKHOLM) == 181 * 24 - 1
    assert Period(date(2026, 4, 5), date(2026, 4, 5)).hours(LORD_HOWE) == 24.5


def test_a_day_whose_midnight_does_not_exist_begins_after_the_change() -> None:
    skipped = Period(date(2022, 3, 27), date(2022, 3, 27))  # Beirut: from 23:59 straight to 01:00
    assert begins_at(skipped.starts_on, BEIRUT) == datetime(2022, 3, 26, 22, tzinfo=UTC)
    assert skipped.hours(BEIRUT) == 23


@given(period=PERIODS, zone=ZONES, cut=st.integers(1, 4000))
def test_hours_of_days_add_up_across_clock_changes(period: Period, zone: ZoneInfo, cut: int) -> None:
    begin, end = period.instants(zone)
    assert period.hours(zone) == (end - begin) / timedelta(hours=1)
    if period.n_days > cut:
        middle = period.starts_on + cut * DAY
        parts = Period(period.starts_on, middle - DAY), Period(middle, period.ends_on)
        assert sum(part.hours(zone) for part in parts) == pytest.approx(period.hours(zone), rel=1e-12)
    assert period.hours(zone, until=begin) == 0
    assert period.hours(zone, until=end + DAY) == period.hours(zone)
    assert day_of(begin, zone) == period.starts_on
    assert day_of(end - timedelta(seconds=1), zone) == period.ends_on


@given(period=PERIODS, parts=st.lists(PERIODS, max_size=5))
def test_days_without_capacity_are_reported(period: Period, parts: list[Period]) -> None:
    days = {period.starts_on + n * DAY for n in range(period.n_days)}
    missing = {day for day in days if not any(day in part for part in parts)}
    found = uncovered(period, parts)
    assert {gap.starts_on + n * DAY for gap in found for n in range(gap.n_days)} == missing
    assert found == sorted(found)


@pytest.mark.parametrize("wrong", [(date(2026, 2, 1), date(2026, 1, 1)), (date(1960, 1, 1), date(2026, 1, 1))])
def test_a_period_cannot_end_before_it_starts(wrong: tuple[date, date]) -> None:
    with pytest.raises(ValueError, match="last day must not be before its first"):
        Period(*wrong)


def test_capacities_of_a_site_that_grows_add_up() -> None:
    rows = [
        Capacity(starts_on=date(2026, 1, 1), ends_on=None, per_hour=100),
        Capacity(starts_on=date(2026, 7, 1), ends_on=date(2026, 7, 31), per_hour=50),
    ]
    july = Period(date(2026, 7, 1), date(2026, 7, 31))
    assert capacity_in(rows, july, STOCKHOLM) == 150 * 31 * 24
    assert capacity_in(rows, whole_year(july.starts_on), STOCKHOLM) == 100 * 8760 + 50 * 31 * 24
    assert capacity_in(rows, july, STOCKHOLM, until=datetime(2026, 7, 1, 10, tzinfo=UTC)) == 150 * 12
    assert capacity_in(rows, Period(date(2025, 1, 1), date(2025, 1, 31)), STOCKHOLM) == 0


def allocate(uid: UUID, amount: float, period: Period) -> Allocation:
    return Allocation(entry_uid=uid, amount=amount, starts_on=period.starts_on, ends_on=period.ends_on)


@given(whole=PERIODS, period=PERIODS, zone=ZONES, amount=st.floats(0, 1e9), hours=st.integers(0, 100_000))
def test_an_allocation_is_spread_evenly_over_its_hours(
    whole: Period, period: Period, zone: ZoneInfo, amount: float, hours: int
) -> None:
    uid = new_uid()
    given_to = allocate(uid, amount, whole)
    found = allocated_in([given_to], period, zone).get(uid, 0.0)
    begin = max(whole.instants(zone)[0], period.instants(zone)[0])
    end = min(whole.instants(zone)[1], period.instants(zone)[1])
    shared_h = Fraction(max((end - begin) / timedelta(hours=1), 0.0))
    expected = Fraction(amount) * shared_h / Fraction(whole.hours(zone))
    assert found == pytest.approx(float(expected), rel=1e-9, abs=1e-9)
    until = begin + timedelta(hours=hours)
    assert allocated_in([given_to], period, zone, until=until).get(uid, 0.0) <= found * (1 + 1e-12)


@st.composite
def allocated_trees(draw: st.DrawFn) -> tuple[TreeColumns, dict[UUID, float], float | None]:
    """A tree of up to 14 entries, some of which have allocations."""
    n = draw(st.integers(1, 14))
    nodes = [Node(UUID(int=1), None, "root")]
    for k in range(1, n):
        nodes.append(Node(UUID(int=k + 1), nodes[draw(st.integers(0, k - 1))].uid, f"e{k}"))
    amounts = st.integers(0, 1000).map(float)
    allocated = {node.uid: draw(amounts) for node in nodes[1:] if draw(st.booleans())}
    return columns_of(nodes), allocated, draw(st.none() | amounts)


def needed(tree: TreeColumns, i: int, allocated: dict[UUID, float]) -> float:
    """The slow twin: what has to come from above an entry."""
    own = allocated.get(tree.uuid(i))
    return sum(needed(tree, child, allocated) for child in tree.children(i)) if own is None else own


def leaves_of(tree: TreeColumns, i: int, allocated: dict[UUID, float]) -> Iterator[float]:
    """The allocations of the lowest entries that have any."""
    below = [each for child in tree.children(i) for each in leaves_of(tree, child, allocated)]
    yield from below or ([allocated[tree.uuid(i)]] if tree.uuid(i) in allocated else [])


@given(drawn=allocated_trees())
def test_overallocated_children_are_flagged(
    drawn: tuple[TreeColumns, dict[UUID, float], float | None],
) -> None:
    tree, allocated, capacity = drawn
    sums = add_up(tree, allocated, capacity)
    for i in range(len(tree)):
        own = capacity if i == 0 else allocated.get(tree.uuid(i))
        sub_allocated = sum(needed(tree, child, allocated) for child in tree.children(i))
        assert sums.sub_allocated[i] == sub_allocated
        assert bool(sums.is_over[i]) == (own is not None and sub_allocated > own)
        if own is not None:
            assert sums.kept[i] - sums.over[i] == own - sub_allocated
            assert min(sums.kept[i], sums.over[i]) == 0
    if capacity is not None and not sums.is_over.any():
        assert sum(leaves_of(tree, 0, allocated)) <= capacity


def test_allocations_of_archived_entries_are_ignored() -> None:
    tree = columns_of([Node(new_uid(), None, "root")])
    sums = add_up(tree, {new_uid(): 500.0}, 100.0)
    assert (sums.sub_allocated[0], sums.kept[0], bool(sums.is_allocated[0])) == (0, 100, True)


def group(shares: list[float], *, reserve: float | None = None) -> TreeColumns:
    root = Node(new_uid(), None, "root")
    nodes = [root, *(Node(new_uid(), root.uid, f"c{n:02}", shares=each) for n, each in enumerate(shares))]
    if reserve is not None:
        nodes.append(Node(new_uid(), root.uid, "reserve", kind="reserve", shares=reserve, is_group=False))
    return columns_of(nodes)


AMOUNTS = st.floats(1, 1e7, allow_nan=False)


@given(
    amounts=st.lists(AMOUNTS, min_size=1, max_size=8),
    others=st.lists(st.floats(0.5, 100), max_size=4),
    beyond=st.none() | st.floats(0.5, 3),
    rest=st.sampled_from(["spread", "reserve"]),
    has_reserve=st.booleans(),
)
def test_shares_converted_from_core_hours_give_the_same_core_hours(
    amounts: list[float], others: list[float], beyond: float | None, rest: str, has_reserve: bool
) -> None:
    tree = group([1.0] * len(amounts) + others, reserve=5 if has_reserve else None)
    allocated = {1 + n: amount for n, amount in enumerate(amounts)}
    has = None if beyond is None else sum(amounts) * beyond
    found = convert(tree, 0, allocated, has, rest=rest)
    assert sum(line.amount for line in found.lines) == pytest.approx(found.divided)
    assert sum(line.part for line in found.lines) == pytest.approx(1)
    total = sum(line.shares_after for line in found.lines)
    for line in found.lines:
        back = found.divided * line.shares_after / total
        assert back == pytest.approx(line.amount, rel=4e-5)
    by_uid = {line.entry: line for line in found.lines}
    for i, amount in allocated.items():
        assert by_uid[tree.uuid(i)].amount == amount
    if has is not None:
        assert found.over_committed == pytest.approx(max(sum(amounts) - has, 0), abs=1e-6)
        if found.over_committed == 0 and (rest == "reserve" or others):
            assert found.divided == pytest.approx(has)


@given(amounts=st.lists(AMOUNTS, min_size=2, max_size=6), rest=st.sampled_from(["spread", "reserve"]))
def test_the_draft_has_the_previewed_shares(amounts: list[float], rest: str) -> None:
    tree = group([10.0] * (len(amounts) + 1))
    found = convert(tree, 0, {1 + n: a for n, a in enumerate(amounts)}, sum(amounts) * 1.25, rest=rest)
    operations = operations_of(found)
    after = tree_after(tree, operations) if operations else tree
    shown = {line.name: line.shares_after for line in found.lines}
    assert {after.name[i]: float(after.shares[i]) for i in after.children(0)} == shown
    again = convert(after, 0, {1 + n: a for n, a in enumerate(amounts)}, sum(amounts) * 1.25, rest=rest)
    assert not again.is_changed, "what was drafted once isn't drafted again"


def lines(found: Conversion) -> dict[str, tuple[str, float]]:
    return {line.name: (line.basis, line.shares_after) for line in found.lines}


def test_the_remainder_goes_to_a_reserve_or_to_entries_without_an_allocation() -> None:
    tree = group([30, 50, 20])
    allocated = {1: 600.0}
    kept = convert(tree, 0, allocated, 1000.0, rest="reserve")
    assert lines(kept) == {"c00": ("allocated", 60), "c01": ("none", 0), "c02": ("none", 0), "reserve": ("rest", 40)}
    assert operations_of(kept)[-1]["op"] == "add"
    spread = convert(tree, 0, allocated, 1000.0, rest="spread")
    assert lines(spread) == {
        "c00": ("allocated", 60),
        "c01": ("rest", pytest.approx(28.5714)),
        "c02": ("rest", pytest.approx(11.4286)),
    }
    assert lines(convert(group([30, 50], reserve=20), 0, {1: 600.0, 2: 200.0}, 1000.0)) == {
        "c00": ("allocated", 75),
        "c01": ("allocated", 25),
        "reserve": ("none", 0),
    }


def test_overallocated_entries_get_proportional_shares() -> None:
    found = convert(group([50, 50]), 0, {1: 900.0, 2: 300.0}, 1000.0)
    assert lines(found) == {"c00": ("allocated", 75), "c01": ("allocated", 25)}
    assert found.over_committed == 200


def test_last_days_of_allocations_become_last_days_of_shares() -> None:
    tree = group([50, 50])
    found = convert(tree, 0, {1: 900.0, 2: 300.0}, None, last_days={1: date(2027, 3, 31)})
    operations = operations_of(found, at_end="zero")
    assert [operation["op"] for operation in operations] == ["set_shares", "set_dates", "set_shares"]
    assert operations[1]["dates"] == {"starts_on": None, "ends_on": "2027-03-31", "shares": None, "at_end": "zero"}
    tree_after(tree, operations)
    with pytest.raises(Invalid, match="at_end"):
        operations_of(found, at_end="never")


def test_an_impossible_conversion_names_the_reason() -> None:
    root = Node(new_uid(), None, "root")
    inherits = columns_of([root, Node(new_uid(), root.uid, "a", shares=None), Node(new_uid(), root.uid, "b")])
    with pytest.raises(Invalid, match="/a inherits"):
        convert(inherits, 0, {2: 5.0}, 10.0)
    with pytest.raises(Invalid, match="no allocation in this period"):
        convert(group([1, 1]), 0, {}, 10.0)
    with pytest.raises(Invalid, match="rest"):
        convert(group([1, 1]), 0, {1: 1.0}, 10.0, rest="elsewhere")


def test_core_hours_of_shares_multiply_the_targets_of_every_level() -> None:
    root, vo = Node(new_uid(), None, "root"), new_uid()
    nodes = [
        root,
        Node(vo, root.uid, "vo", shares=30),
        Node(new_uid(), root.uid, "x", shares=70),
        Node(new_uid(), vo, "p", shares=1),
        Node(new_uid(), vo, "q", shares=3),
    ]
    tree = columns_of(nodes)
    i = tree.index_of_path("/vo/q")
    assert i is not None
    steps = list_conversion_steps(tree, i, 10_000, np.array([1.0, 0.3, 0.7, 0.25, 0.75]))
    assert [(step.name, step.part, step.amount) for step in steps] == [("vo", 0.3, 3000), ("q", 0.75, 2250)]
    assert steps[0].of_shares == pytest.approx(100)
