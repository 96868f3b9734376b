"""Resets of usage by the calendar, against a walk from hour to hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apps.engine.calendar_resets import RESETS, longest_period_s, period_start_s
from apps.engine.decay import Window, bucket_weights, weights
from apps.engine.errors import BadParameter
from apps.engine.explain.recovery import has_closed_form, scales_alike
from tests.oracles.hourly_usage import last_reset_s

HOUR = 3_600
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Africa/Cairo", "Pacific/Apia", "Asia/Beirut")


@pytest.mark.parametrize("reset", ["daily", "weekly", "monthly"])
@given(
    at_s=st.integers(631_152_000, 2_208_988_800),  # 1990 to 2040
    zone=st.sampled_from(ZONES),
)
@example(at_s=1_774_747_800, zone="Europe/Berlin")  # a day of 23 hours
@example(at_s=1_792_888_200, zone="Europe/Berlin")
@example(at_s=1_325_246_400, zone="Pacific/Apia")
@example(at_s=1_709_251_140, zone="America/New_York")
def test_a_period_begins_with_its_first_local_day(reset: str, at_s: int, zone: str) -> None:
    start_s = period_start_s(at_s, reset, zone)
    assert start_s == last_reset_s({"reset": reset, "reset_zone": zone}, at_s)
    assert at_s - start_s < longest_period_s(reset)


@pytest.mark.parametrize(
    ("reset", "on", "start"),
    [
        ("quarterly", "2026-05-17", "2026-04-01"),
        ("quarterly", "2026-12-31", "2026-10-01"),
        ("yearly", "2024-02-29", "2024-01-01"),
        ("weekly", "2026-11-29", "2026-11-29"),
        ("weekly", "2026-11-28", "2026-11-22"),
    ],
)
def test_quarters_years_and_weeks_begin_as_in_slurm(reset: str, on: str, start: str) -> None:
    at_s, start_s = (datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() for day in (on, start))
    assert period_start_s(at_s + 10 * HOUR, reset, "UTC") == start_s


@pytest.mark.parametrize("reset", RESETS)
def test_usage_before_the_reset_is_gone_and_later_usage_counts_as_before(reset: str) -> None:
    as_of_s = datetime(2026, 8, 19, 15, 30, tzinfo=UTC).timestamp()
    plain = Window.of("exponential", half_life_s=86_400)
    window = Window(None, "exponential", {"half_life_s": 86_400}, reset=reset)
    start_s = period_start_s(as_of_s, reset, "UTC")
    hours = np.arange(start_s - 300 * HOUR, as_of_s, HOUR)
    expected = np.where(hours >= start_s, bucket_weights(hours, as_of_s, plain), 0.0)
    assert (bucket_weights(hours, as_of_s, window) == expected).all()
    assert not bucket_weights(hours[hours < start_s], start_s, window).any()


def test_a_window_with_resets_is_not_of_uniform_decay() -> None:
    window = Window(None, "exponential", {"half_life_s": 86_400}, reset="monthly")
    assert window.depends_on_instant
    assert not window.is_multiplicative
    assert not has_closed_form(window)
    assert not scales_alike(window)
    assert window.reach_s == 32 * 86_400


def test_a_bucket_over_a_reset_counts_whole() -> None:
    """Midnight in India is at half past an hour of UTC."""
    window = Window(reset="daily", reset_zone="Asia/Kolkata")
    as_of_s = datetime(2026, 8, 19, 20, 0, tzinfo=UTC).timestamp()
    assert bucket_weights([as_of_s - 3 * HOUR, as_of_s - 2 * HOUR, as_of_s - HOUR], as_of_s, window).tolist() == [
        0,
        1,
        1,
    ]


@pytest.mark.parametrize(
    ("reset", "zone", "place"),
    [("hourly", "UTC", "reset"), ("daily", "Europe/Atlantis", "reset_zone"), ("daily", "../etc", "reset_zone")],
)
def test_unknown_periods_and_zones_are_refused(reset: str, zone: str, place: str) -> None:
    with pytest.raises(BadParameter) as refusal:
        Window(reset=reset, reset_zone=zone)
    assert refusal.value.place == place


def test_weights_are_those_of_the_window_where_no_reset_came() -> None:
    as_of_s = (datetime(2026, 8, 19, tzinfo=UTC) + timedelta(hours=5)).timestamp()
    ages = np.arange(0, 5 * HOUR, 600.0)
    assert (weights(ages, Window(reset="daily"), as_of_s) == 1.0).all()
