"""When entries come back to their targets: the closed form, hour by hour, and what never happens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from apps.engine.decay import Window
from apps.engine.errors import BadParameter
from apps.engine.explain import (
    Balance,
    History,
    half_life_s_of,
    has_closed_form,
    recovery,
    recovery_in_window,
    recovery_range,
    usual_rates,
)
from tests.each_case import each_case
from tests.examples import examples
from tests.oracles import analysis as oracles_analysis

DAY_S = 86_400.0
PART = st.floats(0.02, 0.98)


@examples(60)
@given(part=PART, target=PART, share=PART, rate=st.floats(0.05, 20.0), half_life_d=st.floats(1.0, 30.0))
def test_the_closed_form_equals_stepping_through_time(
    part: float, target: float, share: float, rate: float, half_life_d: float
) -> None:
    assume(abs(part - target) > 0.01)
    assume(abs(share - target) > 0.01)
    found = recovery(Balance(part * 1e6, 1e6, target), group_rate=rate, share=share, half_life_s=half_life_d * DAY_S)
    if (part > target) == (share > target):
        assert (found.outcome, found.in_s) == ("not_at_this_pace", None)
        return
    assert found.outcome == "recovers"
    assert found.in_s is not None
    step_s = found.in_s / 2000
    stepped = oracles_analysis.seconds_to_balance(part * 1e6, 1e6, target, rate, share, half_life_d * DAY_S, step_s)
    assert stepped == pytest.approx(found.in_s, abs=2 * step_s)


def test_the_formula_in_numbers() -> None:
    """U = 55, T = 100, s = 0.4, K = R·h/ln 2: h·log₂((U − s·T + (s − r)K)/((s − r)K))."""
    half_life_s, rate = 7 * DAY_S, 100 / (10 * DAY_S)
    k = rate * half_life_s / np.log(2)
    expected = half_life_s * np.log2((55 - 40 + (0.4 - 0.1) * k) / ((0.4 - 0.1) * k))
    found = recovery(Balance(55, 100, 0.4), group_rate=rate, share=0.1, half_life_s=half_life_s)
    assert found.in_s == pytest.approx(expected)


def test_without_any_usage_an_entry_never_returns() -> None:
    for balance in (Balance(55, 100, 0.4), Balance(5, 100, 0.4)):
        for half_life_s in (DAY_S, None):
            found = recovery(balance, group_rate=0.0, share=0.0, half_life_s=half_life_s)
            assert (found.outcome, found.in_s) == ("never_if_nobody_runs", None)


def test_a_pace_equal_to_the_target_approaches_without_arriving() -> None:
    found = recovery(Balance(55, 100, 0.4), group_rate=1.0, share=0.4, half_life_s=DAY_S)
    assert found.outcome == "not_at_this_pace"


def test_on_target_is_now() -> None:
    for balance in (Balance(40, 100, 0.4), Balance(0, 0, 0.4), Balance(0, 50, 0.0), Balance(0.1 + 0.2, 1.0, 0.3)):
        assert recovery(balance, group_rate=0.0, share=0.0, half_life_s=DAY_S).outcome == "on_target"


def test_without_decay_only_new_usage_dilutes_the_old() -> None:
    found = recovery(Balance(60, 100, 0.5), group_rate=2.0, share=0.25, half_life_s=None)
    assert found.in_s == pytest.approx(20.0)  # 60 + 0.5·x = 0.5·(100 + 2·x)


def test_the_range_covers_faster_to_slower_pace() -> None:
    days = [0.0, 10.0, 20.0, 30.0, 40.0]
    found = recovery_range(Balance(55, 100, 0.4), rates=usual_rates(days), share=0.1, half_life_s=7 * DAY_S)
    assert found.soonest.in_s is not None
    assert found.middle.in_s is not None
    assert found.latest.in_s is not None
    assert found.soonest.in_s < found.middle.in_s < found.latest.in_s
    assert usual_rates(days) == (10 / DAY_S, 20 / DAY_S, 30 / DAY_S)
    quiet = usual_rates([0, 0, 0, 0, 5])
    assert quiet == (0.0, 1 / DAY_S, 1 / DAY_S), "the mean of few days with usage, and its range holds it"
    idle = recovery_range(Balance(55, 100, 0.4), rates=quiet, share=0.1, half_life_s=DAY_S)
    outcomes = (idle.soonest.outcome, idle.middle.outcome, idle.latest.outcome)
    assert outcomes == ("recovers", "recovers", "never_if_nobody_runs")


def test_a_higher_pace_and_a_longer_half_life_are_slower() -> None:
    def days(share: float, half_life_d: float) -> float:
        found = recovery(Balance(70, 100, 0.5), group_rate=1e-4, share=share, half_life_s=half_life_d * DAY_S)
        assert found.in_s is not None
        return found.in_s / DAY_S

    assert days(0.0, 7) < days(0.2, 7) < days(0.4, 7)
    assert days(0.1, 7) < days(0.1, 14)


def history(seed: int, hours: int = 240) -> History:
    rng = np.random.default_rng(seed)
    group = rng.integers(1, 1000, hours).astype(np.float64)
    hour_start_s = np.arange(hours, dtype=np.float64) * 3600
    return History(hour_start_s, group * rng.uniform(0.5, 0.9), group)


@examples(25)
@given(seed=st.integers(0, 10**6), share=st.floats(0.0, 0.3))
def test_the_hourly_simulation_agrees_with_the_closed_form(seed: int, share: float) -> None:
    past, half_life_s = history(seed), 2 * DAY_S
    as_of_s = float(past.hour_start_s[-1] + 3600)
    weight = 2.0 ** (-(as_of_s - past.hour_start_s - 3600) / half_life_s)
    balance = Balance(float((weight * past.own_usage).sum()), float((weight * past.group_usage).sum()), 0.4)
    closed = recovery(balance, group_rate=0.1, share=share, half_life_s=half_life_s)
    hourly = recovery_in_window(
        past,
        target=0.4,
        as_of_s=as_of_s,
        window=Window.of(aging="exponential", half_life_s=half_life_s),
        group_rate=0.1,
        share=share,
        horizon_s=60 * DAY_S,
    )
    assert closed.outcome == hourly.outcome
    if closed.in_s is not None and hourly.in_s is not None:
        assert hourly.in_s == pytest.approx(closed.in_s, abs=2 * 3600)


def test_a_finite_window_alone_brings_an_entry_back() -> None:
    past = history(3)
    as_of_s = float(past.hour_start_s[-1] + 3600)
    window = Window(length_s=5 * DAY_S)
    rest = recovery_in_window(
        past, target=0.4, as_of_s=as_of_s, window=window, group_rate=0.0, share=0.0, horizon_s=30 * DAY_S
    )
    assert rest.outcome == "recovers"
    assert rest.in_s is not None
    assert rest.in_s <= 5 * DAY_S + 2 * 3600
    greedy = recovery_in_window(
        past, target=0.4, as_of_s=as_of_s, window=window, group_rate=1.0, share=0.5, horizon_s=30 * DAY_S
    )
    assert greedy.outcome == "not_at_this_pace"


@each_case(
    ("window", "group_rate", "share", "outcome"),
    [
        (Window(), 0.0, 0.0, "never_if_nobody_runs"),
        (Window.of(aging="exponential", half_life_s=DAY_S), 0.0, 0.0, "never_if_nobody_runs"),
        (Window.of(aging="exponential", half_life_s=DAY_S), 1.0, 0.9, "not_at_this_pace"),
        (Window(aging="linear", length_s=5 * DAY_S), 1.0, 0.9, "not_at_this_pace"),
        (Window(aging="linear", length_s=5 * DAY_S), 1.0, 0.1, "recovers"),
        (Window.of(aging="step", granularity_s=DAY_S, factor=0.5), 1.0, 0.1, "recovers"),
        (Window.of(aging="step", granularity_s=DAY_S, factor=0.5), 1e-9, 0.1, "not_within_horizon"),
        (Window(), 1e-9, 0.1, "not_within_horizon"),
        (Window(aging="pbs"), 0.0, 0.0, "never_if_nobody_runs"),
        (Window(aging="pbs"), 1.0, 0.9, "not_at_this_pace"),
        (Window(aging="pbs"), 1.0, 0.1, "recovers"),
        (Window(aging="slurm"), 0.0, 0.0, "never_if_nobody_runs"),
        (Window(aging="lsf"), 1.0, 0.9, "not_at_this_pace"),
        (Window(aging="gridengine"), 1.0, 0.1, "recovers"),
        (Window.of(aging="flux", half_life_s=DAY_S), 1.0, 0.9, "not_at_this_pace"),
        (Window.of(aging="flux", half_life_s=DAY_S), 0.0, 0.0, "recovers"),
    ],
)
def test_every_window_has_its_outcomes(window: Window, group_rate: float, share: float, outcome: str) -> None:
    past = history(8)
    as_of_s = float(past.hour_start_s[-1] + 3600)
    found = recovery_in_window(
        past, target=0.4, as_of_s=as_of_s, window=window, group_rate=group_rate, share=share, horizon_s=20 * DAY_S
    )
    assert found.outcome == outcome
    assert (found.in_s is None) == (outcome != "recovers")


def test_invalid_pace_and_balance_are_rejected() -> None:
    for own, group, target in ((2.0, 1.0, 0.5), (-1.0, 1.0, 0.5), (0.0, float("inf"), 0.5), (0.0, 1.0, 1.5)):
        with pytest.raises(BadParameter):
            Balance(own, group, target)
    good = Balance(55, 100, 0.4)
    for rate, share, half_life_s in (
        (-1.0, 0.1, DAY_S),
        (float("nan"), 0.1, DAY_S),
        (1.0, 1.1, DAY_S),
        (1.0, 0.1, 0.0),
    ):
        with pytest.raises(BadParameter):
            recovery(good, group_rate=rate, share=share, half_life_s=half_life_s)
    with pytest.raises(BadParameter):
        usual_rates([])
    with pytest.raises(BadParameter):
        recovery_in_window(
            history(1), target=0.4, as_of_s=1e6, window=Window(), group_rate=1.0, share=0.1, horizon_s=float("inf")
        )


@pytest.mark.parametrize(
    ("window", "half_life_s"),
    [
        (Window(), None),
        (Window.of(aging="exponential", half_life_s=5 * DAY_S), 5 * DAY_S),
        (Window.of(aging="lsf", hist_hours=5.0), 5 * 3600 * np.log(2) / np.log(10)),
        (Window.of(aging="lsf", hist_hours=0.0), None),
        (Window.of(aging="lsf", hist_hours=0.01), 36 * np.log(2) / np.log(10)),
        (Window.of(aging="gridengine", halftime_h=0.01), 1e-3),
        (Window.of(aging="slurm", half_life_s=7 * DAY_S), 7 * DAY_S * np.log(2) / 0.693),
    ],
)
def test_exponential_decay_functions_have_a_closed_form(window: Window, half_life_s: float | None) -> None:
    assert has_closed_form(window)
    found = half_life_s_of(window)
    assert found == (None if half_life_s is None else pytest.approx(half_life_s, rel=1e-5))


def test_the_closed_form_of_scheduler_decay_agrees_with_its_hours() -> None:
    past = history(5)
    as_of_s = float(past.hour_start_s[-1] + 3600)
    window = Window.of(aging="gridengine", halftime_h=72.0)
    weight = 2.0 ** (-(as_of_s - past.hour_start_s - 3600) / (half_life_s_of(window) or 1.0))
    balance = Balance(float((weight * past.own_usage).sum()), float((weight * past.group_usage).sum()), 0.4)
    closed = recovery(balance, group_rate=0.1, share=0.2, half_life_s=half_life_s_of(window))
    hourly = recovery_in_window(
        past, target=0.4, as_of_s=as_of_s, window=window, group_rate=0.1, share=0.2, horizon_s=60 * DAY_S
    )
    assert closed.in_s is not None
    assert hourly.in_s == pytest.approx(closed.in_s, abs=2 * 3600)


@pytest.mark.parametrize(
    "window",
    [
        Window(length_s=DAY_S),
        Window(aging="linear", length_s=DAY_S),
        Window(aging="pbs"),
        Window(aging="flux"),
        Window.of(aging="step", granularity_s=DAY_S, factor=0.5),
        Window.of(aging="exponential", half_life_s=DAY_S, length_s=DAY_S),
    ],
)
def test_other_windows_have_no_closed_form(window: Window) -> None:
    assert not has_closed_form(window)
    with pytest.raises(BadParameter, match="closed form"):
        half_life_s_of(window)


def test_a_horizon_of_an_hour_is_the_shortest() -> None:
    past = History(np.array([0.0]), np.array([60.0]), np.array([100.0]))

    def outcome(horizon_s: float) -> str:
        return recovery_in_window(
            past, target=0.4, as_of_s=3600.0, window=Window(), group_rate=1.0, share=0.0, horizon_s=horizon_s
        ).outcome

    assert outcome(3600.0) == "recovers"
    with pytest.raises(BadParameter) as refused:
        outcome(3599.0)
    assert (refused.value.place, refused.value.message) == ("horizon_s", "an hour or more is allowed")
