"""Numbers and balance in words."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from apps.dashboard import presentation
from apps.dashboard.figures.bullet import State

NOW = datetime(2026, 12, 1, 12, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.336, "33.6\u00a0%"),
        (1.0, "100.0\u00a0%"),
        (0.0, "0.0\u00a0%"),
        (0.0004, "<0.1\u00a0%"),
        (1e-12, "<0.1\u00a0%"),
        (0.0006, "0.1\u00a0%"),
        (None, "\u2013"),
        (float("nan"), "\u2013"),
    ],
)
def test_a_share_has_one_decimal_and_never_reads_as_zero_when_something_ran(fraction: float | None, text: str) -> None:
    assert presentation.percent(fraction) == text


def test_changes_carry_a_sign_and_balance_does_not() -> None:
    assert presentation.change(0.30, 0.374) == "+7.4"
    assert presentation.change(0.30, 0.267) == "\u22123.3"
    assert presentation.change(0.3, 0.3) == "±0"
    assert presentation.signed(-0.3152) == "\u22120.315"
    assert presentation.signed(0.0) == "0.000"


def test_balance_is_over_under_or_on_target_within_tolerance() -> None:
    assert presentation.balance(0.382, 0.30).text == "8.2 over"
    assert presentation.balance(0.309, 0.35).text == "4.1 under"
    assert presentation.balance(0.33, 0.30).text == "on target"
    assert presentation.balance(0.005, 0.0).state is State.ON


def test_nobody_ran_is_no_demand_and_an_unknown_usage_is_no_data() -> None:
    assert presentation.balance(0.0, 0.1, has_usage=False).text == "no demand"
    assert presentation.balance(None, 0.1).text == "no data"
    assert presentation.balance(0.0, 0.1).text == "10.0 under"


def test_amounts_are_core_hours_with_a_trace_shown_as_a_trace() -> None:
    assert presentation.core_hours(214_806 * 3600) == "214,806"
    assert presentation.core_hours(3600 * 3.25) == "3.2"
    assert presentation.core_hours(1) == "<0.1"
    assert presentation.core_hours(0) == "0"


def test_times_name_the_day_only_when_it_is_another_one() -> None:
    assert presentation.clock_time(datetime(2026, 12, 1, 9, 30, tzinfo=UTC), NOW) == "09:30"
    assert presentation.clock_time(datetime(2026, 11, 26, 9, 30, tzinfo=UTC), NOW) == "26 Nov, 09:30"
    assert presentation.clock_time(datetime(2005, 11, 26, 9, 30, tzinfo=UTC), NOW) == "26 Nov 2005, 09:30"


def test_ages_and_windows_take_the_unit_that_fits() -> None:
    assert presentation.age(40) == "40\u00a0s"
    assert presentation.age(9 * 3600) == "9\u00a0h"
    assert presentation.age(-5) == "0\u00a0s"
    assert presentation.duration(604_800) == "7\u00a0d"
    assert presentation.duration(36 * 3600) == "36\u00a0h"


def test_shares_read_as_they_were_typed() -> None:
    assert presentation.shares(20.0) == "20"
    assert presentation.shares(0.5) == "0.5"
    assert presentation.shares(None) == "inherit"
    assert presentation.shares(88.23529411764706) == "88.23529412"


@pytest.mark.parametrize(
    ("value", "text"), [(30.0, "30"), (13.425742574257425, "13.4257"), (None, "inherit"), (1234567.25, "1234567.25")]
)
def test_a_column_of_shares_keeps_six_digits(value: float | None, text: str) -> None:
    assert presentation.shares_short(value) == text
