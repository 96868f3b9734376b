"""The course of a balance from now on: hour by hour as a recompute would count it, and in closed form to 1 %."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from apps.engine.algorithms import compute
from apps.engine.decay import Window, bucket_weights
from apps.engine.errors import BadParameter
from apps.engine.explain import (
    Balance,
    History,
    UsageRate,
    catch_up,
    course_in_window,
    fading_course,
    half_life_s_of,
    recovery,
    recovery_in_window,
    steady_rate,
)
from apps.engine.tree import FairshareTree
from tests.each_case import each_case
from tests.engine.explain.test_recovery import history
from tests.examples import examples

DAY_S = 86_400.0
HOUR_S = 3600.0
WINDOWS = [
    Window(length_s=10 * DAY_S),
    Window(length_s=20 * DAY_S, aging="linear"),
    Window.of(length_s=30 * DAY_S, aging="exponential", half_life_s=3 * DAY_S),
    Window.of(aging="step", granularity_s=DAY_S, factor=0.5),
    Window.of(aging="exponential", half_life_s=4 * DAY_S),
    Window.of(aging="pbs", decay_time_s=DAY_S, decay_factor=0.5),
    Window.of(aging="flux", half_life_s=7 * DAY_S, periods=4),
]
TWO, _ = FairshareTree.from_columns(np.array([-1, 0, 0]), np.array([1.0, 30.0, 70.0]))


def _recomputed(past: History, hours: int, as_of_s: float, window: Window, pace: UsageRate) -> float:
    """What the first of two siblings is over its target by after some hours, by the engine itself: no formula."""
    then_s = as_of_s + hours * HOUR_S
    old = bucket_weights(past.hour_start_s, then_s, window)
    new = float(bucket_weights(as_of_s + HOUR_S * np.arange(hours), then_s, window).sum()) * HOUR_S
    own = float((old * past.own_usage).sum()) + new * pace.own_rate
    group = float((old * past.group_usage).sum()) + new * pace.group_rate
    result = compute(TWO, np.array([0.0, own, group - own]), algorithm={"name": "aequus"})
    return float((result.actual[1] - result.target[1]) * result.usage[0])


def _simulated_h(past: History, as_of_s: float, window: Window, pace: UsageRate, most_h: int) -> float | None:
    """The hour at which the engine's own answer turns, and how far into it; None where it doesn't."""
    start = before = _recomputed(past, 0, as_of_s, window, pace)
    for hour in range(1, most_h + 1):
        after = _recomputed(past, hour, as_of_s, window, pace)
        if after * start <= 0:
            return hour - 1 + before / (before - after)
        before = after
    return None


@pytest.mark.deep
@examples(40)
@given(
    seed=st.integers(0, 10**6), share=st.floats(0.0, 1.0), rate=st.floats(0.01, 2.0), half_life_d=st.floats(0.25, 30.0)
)
@example(seed=653717, share=0.0, rate=0.01, half_life_d=14.0)  # turns within the last of the days that are simulated
def test_the_closed_form_agrees_with_hourly_recomputes_of_its_own_assumptions_to_one_percent(
    seed: int, share: float, rate: float, half_life_d: float
) -> None:
    past, window = history(seed), Window.of(aging="exponential", half_life_s=half_life_d * DAY_S)
    as_of_s = float(past.hour_start_s[-1] + HOUR_S)
    weight = bucket_weights(past.hour_start_s, as_of_s, window)
    balance = Balance(float((weight * past.own_usage).sum()), float((weight * past.group_usage).sum()), 0.3)
    assume(abs(share - 0.3) > 0.01)
    closed = recovery(balance, group_rate=rate * steady_rate(window), share=share, half_life_s=half_life_s_of(window))
    simulated_h = _simulated_h(past, as_of_s, window, UsageRate(share * rate, rate), 24 * 40)
    if closed.in_s is None or closed.in_s > 41 * DAY_S:
        assert simulated_h is None
    elif simulated_h is None:
        assert closed.in_s > 39 * DAY_S
    else:
        # Between two hours the simulation is interpolated linearly: up to a minute off.
        assert closed.in_s / HOUR_S == pytest.approx(simulated_h, rel=0.01, abs=0.02)


def test_a_pace_that_never_reaches_the_target_agrees_with_the_engine() -> None:
    past, window = history(7), Window.of(aging="exponential", half_life_s=DAY_S)
    as_of_s = float(past.hour_start_s[-1] + HOUR_S)
    assert _simulated_h(past, as_of_s, window, UsageRate(0.6, 1.0), 24 * 30) is None
    assert _simulated_h(past, as_of_s, window, UsageRate(0.0, 0.0), 24 * 30) is None  # no job runs: nothing changes


@each_case("window", WINDOWS, ids=lambda window: window.aging + str(window.length_s))
@each_case(("share", "rate"), [(0.0, 0.2), (0.2, 0.05), (0.9, 0.1), (0.0, 0.0)])
def test_a_course_reaches_the_target_in_the_same_hour_as_an_hourly_simulation(
    window: Window, share: float, rate: float
) -> None:
    past = history(3)
    as_of_s = float(past.hour_start_s[-1] + 2000)
    hourly = recovery_in_window(
        past, target=0.4, as_of_s=as_of_s, window=window, group_rate=rate, share=share, horizon_s=40 * DAY_S
    )
    course = course_in_window(past, window, as_of_s=as_of_s, hours=40 * 24)
    found = catch_up(course, 0.4, UsageRate(share * rate, rate))
    assert found.outcome == hourly.outcome
    if hourly.in_s is not None and found.in_s is not None:
        coarse_s = 6 * HOUR_S if window.aging in ("pbs", "flux") or hourly.in_s > 14 * DAY_S else HOUR_S
        assert abs(found.in_s - hourly.in_s) <= coarse_s


def test_the_balance_alone_gives_the_course_of_its_hours() -> None:
    past, window = history(11), Window.of(aging="exponential", half_life_s=2 * DAY_S)
    as_of_s = float(past.hour_start_s[-1] + HOUR_S)
    weight = bucket_weights(past.hour_start_s, as_of_s, window)
    balance = Balance(float((weight * past.own_usage).sum()), float((weight * past.group_usage).sum()), 0.4)
    by_hours = course_in_window(past, window, as_of_s=as_of_s, hours=24 * 20)
    by_balance = fading_course(balance, window, hours=24 * 20)
    pace = UsageRate(0.01, 0.2)
    assert np.allclose(by_hours.hours, by_balance.hours)
    for one, other in zip(by_hours.at(pace), by_balance.at(pace), strict=True):
        assert np.allclose(one, other, rtol=1e-9)


def test_without_decay_a_course_is_linear() -> None:
    course = fading_course(Balance(60.0, 100.0, 0.5), Window(), hours=240)
    assert catch_up(course, 0.5, UsageRate(0.0005, 0.002)).in_s == pytest.approx(20_000.0)
    assert steady_rate(Window()) == 1.0


def test_a_pace_above_that_of_its_group_is_refused() -> None:
    with pytest.raises(BadParameter):
        UsageRate(2.0, 1.0)


NOTHING = History(np.array([]), np.array([]), np.array([]))


@each_case("window", WINDOWS, ids=lambda window: window.aging + str(window.length_s))
def test_a_course_without_a_past_has_only_the_new_usage(window: Window) -> None:
    course = course_in_window(NOTHING, window, as_of_s=7200.0, hours=30)
    assert course.own_usage.tolist() == course.group_usage.tolist() == [0.0] * len(course.hours)
    for hours, steady_s in zip(course.hours.tolist(), course.steady_s.tolist(), strict=True):
        starts_s = 7200.0 + HOUR_S * np.arange(int(hours))
        weighted = float(bucket_weights(starts_s, 7200.0 + hours * HOUR_S, window).sum())
        assert steady_s == pytest.approx(HOUR_S * weighted, rel=1e-9)
    assert catch_up(course, 0.4, UsageRate(0.0, 0.0)).outcome == "on_target"


def test_the_part_of_the_group_is_0_where_it_has_no_usage() -> None:
    course = course_in_window(NOTHING, Window(), as_of_s=7200.0, hours=2)
    assert course.part(UsageRate(0.5, 2.0)).tolist() == [0.0, 0.25, 0.25]
    assert course.part(UsageRate(0.0, 0.0)).tolist() == [0.0, 0.0, 0.0]


def test_a_course_has_every_hour_of_two_weeks_and_every_sixth_hour_after_them() -> None:
    """The last hour is one of them; with fixed instants every hour is computed anew, so that each sixth must do."""
    hours = fading_course(Balance(60.0, 100.0, 0.5), Window(), hours=350).hours.tolist()
    assert hours == [*range(337), 342, 348, 350]
    assert fading_course(Balance(60.0, 100.0, 0.5), Window(), hours=3).hours.tolist() == [0, 1, 2, 3]
    assert course_in_window(NOTHING, Window(aging="pbs"), as_of_s=0.0, hours=20).hours.tolist() == [0, 6, 12, 18, 20]


def test_a_course_ends_two_hours_after_its_window() -> None:
    """Usage of the hour that runs is in the window that long."""
    ended = course_in_window(NOTHING, Window(length_s=5 * HOUR_S), as_of_s=0.0, hours=20)
    assert (ended.is_whole, ended.hours[-1]) == (True, 7.0)
    whole = course_in_window(NOTHING, Window(length_s=5 * HOUR_S), as_of_s=0.0, hours=7)
    assert (whole.is_whole, whole.hours[-1]) == (True, 7.0)
    cut = course_in_window(NOTHING, Window(length_s=5 * HOUR_S), as_of_s=0.0, hours=6)
    assert (cut.is_whole, cut.hours[-1]) == (False, 6.0)
