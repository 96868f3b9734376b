"""How an allocation will end: each state at its edges, by the formula in the module's docstring."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.contrib.allocations.balance import Grant, charged, holding_on
from apps.contrib.allocations.outlook import STATES, Use, outlook_of, recent_from

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def use(
    used: float | None, recent: float | None, *, allocated: float = 1_000, begun: int = 100, left: int = 100
) -> Use:
    """An allocation that began and ends so many days from now."""
    begins_at = NOW - begun * DAY
    return Use(begins_at, NOW + left * DAY, allocated, used, recent, recent_from(begins_at, NOW))


def test_it_runs_out_on_the_day_when_what_is_left_is_used_at_the_recent_rate() -> None:
    outlook = outlook_of(use(500, 280), NOW)  # 10 a day: 50 days for the other 500
    assert outlook.state == "runs_out"
    assert outlook.runs_out_at == NOW + 50 * DAY
    assert outlook.at_end == pytest.approx(1_500)
    assert outlook.unused == 0


def test_what_wont_be_used_is_what_is_left_at_its_end() -> None:
    outlook = outlook_of(use(400, 112), NOW)  # 4 a day: 400 more until the end
    assert (outlook.state, outlook.runs_out_at) == ("unused", None)
    assert outlook.at_end == pytest.approx(800)
    assert outlook.unused == pytest.approx(200)


@pytest.mark.parametrize(
    ("at_end", "state"),
    [(899, "unused"), (901, "on_course"), (1_000, "on_course"), (1_049, "on_course"), (1_051, "runs_out")],
)
def test_it_is_on_course_between_ten_percent_less_and_five_more(at_end: float, state: str) -> None:
    used = 500.0
    assert outlook_of(use(used, (at_end - used) * 28 / 100), NOW).state == state


def test_an_allocation_that_began_lately_has_the_rate_of_its_own_days() -> None:
    outlook = outlook_of(use(140, 140, begun=14, left=10), NOW)  # 10 a day
    assert outlook.at_end == pytest.approx(240)


def test_there_is_no_forecast_in_the_first_seven_days() -> None:
    assert outlook_of(use(50, 50, begun=6), NOW).state == "early"
    assert outlook_of(use(50, 50, begun=7), NOW).state != "early"
    assert outlook_of(use(1_000, 1_000, begun=6), NOW).state == "used_up", "but that it is used up"


def test_before_its_first_day_and_after_its_last_there_is_no_forecast() -> None:
    assert outlook_of(use(0, 0, begun=-1), NOW).state == "not_begun"
    ended = outlook_of(use(700, 0, left=0), NOW)
    assert (ended.state, ended.at_end, ended.unused) == ("ended", 700, 300)
    assert outlook_of(use(1_200, 0, left=0), NOW).unused == 0


def test_unknown_use_gives_no_number() -> None:
    unknown = outlook_of(use(None, None), NOW)
    assert unknown == type(unknown)("unknown")
    assert outlook_of(use(None, None, left=-1), NOW).state == "ended"


def test_an_allocation_of_nothing_is_used_up_and_idle_use_never_runs_out() -> None:
    assert outlook_of(use(0, 0, allocated=0), NOW).state == "used_up"
    idle = outlook_of(use(0, 0), NOW)
    assert (idle.state, idle.at_end, idle.runs_out_at, idle.unused) == ("unused", 0, None, 1_000)


def test_a_tiny_rate_gives_no_day_that_a_calendar_lacks() -> None:
    outlook = outlook_of(use(1, 1e-300, left=300_000), NOW)
    assert outlook.runs_out_at is None


def test_each_state_has_its_place_on_the_board() -> None:
    assert len(set(STATES)) == len(STATES) == 8


def test_what_is_left_of_a_part_when_it_ends_cannot_be_used_later() -> None:
    """1,000 more until the 10th day and 100 until the 100th, 5 a day: 950 are lost, the 100 last until the 30th."""
    both = replace(use(0, 140, allocated=1_100), parts=((NOW + 10 * DAY, 1_000.0),))
    outlook = outlook_of(both, NOW)
    assert (outlook.state, outlook.runs_out_at) == ("runs_out", NOW + 30 * DAY)
    assert (outlook.at_end, outlook.unused) == (500, 950)
    idle = outlook_of(replace(both, recent=0.0), NOW)
    assert (idle.state, idle.unused, idle.runs_out_at) == ("unused", 1_100, None)


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 400)), min_size=1, max_size=6),
    st.integers(0, 20),
)
def test_the_forecast_of_parts_is_that_of_charging_each_hour(parts: list[tuple[int, int]], a_day: int) -> None:
    grants = [Grant(NOW.date(), NOW.date() + (n - 1) * DAY, float(amount)) for n, amount in parts]
    holding = holding_on(grants, NOW.date())
    assert holding is not None
    last, whole = max(n for n, _amount in parts), float(sum(amount for _n, amount in parts))
    until = NOW.date() + last * DAY
    left = [(NOW + ((day - NOW.date()).days + 1) * DAY, n) for day, n in holding.left_of_parts(nothing, NOW.date())]
    outlook = outlook_of(replace(use(0, 28.0 * a_day, allocated=whole, left=last), parts=tuple(left)), NOW)
    charges = charged(grants, lambda begin, end: float(a_day * (end - begin).days), until)
    unused = sum(max(each.amount - own, 0.0) for each, own in zip(grants, charges, strict=True))
    if whole:
        assert outlook.unused == pytest.approx(unused, abs=1e-6)
    if outlook.runs_out_at is not None:
        assert a_day * ((outlook.runs_out_at - NOW) / DAY) == pytest.approx(whole - unused, abs=1e-3)
    elif whole:
        assert a_day * last <= whole - unused + 1e-6


def nothing(_begin: date, _end: date) -> float:
    return 0.0
