"""Decay functions of schedulers, against captured numbers and against a clock that ticks hour by hour."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.engine.decay import Window, bucket_weights, weights
from apps.engine.decay_functions import DECAY_FUNCTIONS, decay_parameter_names
from apps.engine.errors import BadParameter

HOUR = 3600
DAY = 24 * HOUR
WEEK = 7 * DAY
WITH_ALL_PARAMETERS: dict[str, dict[str, Any]] = {
    "linear": {"length_s": 3 * DAY},
    "exponential": {"half_life_s": DAY},
    "step": {"granularity_s": DAY, "factor": 0.5},
}


def windows() -> list[Window]:
    return [Window.of(aging=name, **WITH_ALL_PARAMETERS.get(name, {})) for name in DECAY_FUNCTIONS]


def one_weight(age_s: float, window: Window, as_of_s: float = 0.0) -> float:
    return float(weights(np.array([age_s]), window, as_of_s)[0])


@pytest.mark.paper("F7")
def test_slurm_decays_as_captured_from_its_controller(golden_dir: Path) -> None:
    captured = json.loads((golden_dir / "slurm/decay.json").read_text())
    window = Window.of(aging="slurm", half_life_s=captured["half_life_seconds"])
    left = one_weight(captured["elapsed_seconds"], window)
    assert left == pytest.approx(captured["slurm_factor"], rel=1e-12)
    for path, before in captured["before"].items():
        assert before * left == pytest.approx(captured["after"][path], rel=1e-9)
    exact = one_weight(captured["elapsed_seconds"], Window.of(aging="exponential", half_life_s=600))
    assert exact == pytest.approx(captured["exact_half_life_factor"], rel=1e-12)
    assert exact - left > 2e-5  # 0.693 of a short half-life differs from ln 2


@pytest.mark.parametrize("period_s", [60, 300, 900, 3600])
def test_slurm_ages_usage_from_the_start_of_its_period(period_s: int) -> None:
    """By the controller's own loop: at each tick all usage decays, and the period's charge by its whole length."""
    window = Window.of(aging="slurm", half_life_s=DAY, calc_period_s=period_s)
    left, usage, hours = 1 - 0.693 / DAY, 0.0, [0, 1, 2, 30]
    for tick in range(period_s, 40 * HOUR + 1, period_s):
        usage = usage * left**period_s
        if (tick - period_s) // HOUR in hours:
            usage += period_s * left**period_s
    starts = np.array(hours) * HOUR
    assert HOUR * float(bucket_weights(starts, 40 * HOUR, window).sum()) == pytest.approx(usage, rel=1e-12)
    whole_hours = bucket_weights(starts, 40 * HOUR, Window.of(aging="slurm", half_life_s=DAY))
    assert HOUR * float(whole_hours.sum()) > 1.014 * usage


def test_a_period_that_does_not_divide_an_hour_is_between_its_neighbours() -> None:
    starts = np.zeros(1)

    def weight(period_s: float) -> float:
        return float(bucket_weights(starts, DAY, Window.of(aging="slurm", half_life_s=DAY, calc_period_s=period_s))[0])

    found = [weight(period_s) for period_s in (0, 60, 420, 600, 3600, 7200)]
    assert found == sorted(found, reverse=True)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("window", "age_s", "left", "tolerance"),
    [
        (Window.of(aging="exponential", half_life_s=DAY), DAY, 0.5, 1e-15),
        (Window(aging="slurm"), WEEK, 0.500073, 1e-6),  # 0.693 is below ln 2
        (Window.of(aging="gridengine", halftime_h=24), DAY, 0.49992, 5e-6),
        (Window(aging="gridengine"), 168 * HOUR, 0.5, 5e-5),
        (Window(aging="lsf"), 5 * HOUR, 0.1, 1e-15),
        (Window.of(aging="lsf", hist_hours=10), 5 * HOUR, math.sqrt(0.1), 1e-15),
        (Window(aging="pbs"), DAY, 0.5, 1e-15),
        (Window(aging="flux"), WEEK, 0.5, 1e-15),
    ],
)
def test_decay_after_its_nominal_span_equals_the_definition(
    window: Window, age_s: float, left: float, tolerance: float
) -> None:
    assert one_weight(age_s, window, as_of_s=1000) == pytest.approx(left, abs=tolerance)


def test_grid_engine_leaves_a_little_less_than_half() -> None:
    """k is a straight line through one minute: the exact power, in fractions but for ln 2."""
    k = 1 - Fraction(60) * Fraction(math.log(2)) / (24 * 3600)
    left = one_weight(DAY, Window.of(aging="gridengine", halftime_h=24))
    assert left == pytest.approx(float(k**1440), rel=1e-12)
    assert left < 0.5


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.sampled_from(["exponential", "slurm", "gridengine", "lsf"]))
def test_smooth_decay_functions_can_be_applied_in_two_steps(first: float, second: float, name: str) -> None:
    window = Window.of(aging=name, **WITH_ALL_PARAMETERS.get(name, {}))
    at_once = one_weight(first + second, window)
    assert at_once == pytest.approx(one_weight(first, window) * one_weight(second, window), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("window", [Window.of(aging="gridengine", halftime_h=0), Window.of(aging="lsf", hist_hours=0)])
def test_zero_hours_mean_no_decay(window: Window) -> None:
    assert weights([0, DAY, 1e9], window).tolist() == [1, 1, 1]


@pytest.mark.fault("F13")
def test_too_short_half_lives_keep_only_current_usage() -> None:
    assert weights([0, 1, 2], Window.of(aging="gridengine", halftime_h=0.01)).tolist() == [1, 0, 0]


@given(
    hours=st.lists(st.integers(-300, 3), min_size=1, max_size=20),
    as_of_s=st.integers(-2 * DAY, 2 * DAY),
    period_h=st.integers(1, 60),
    phase_h=st.integers(0, 60),
)
def test_decay_at_fixed_instants_equals_an_hourly_simulation(
    hours: list[int], as_of_s: int, period_h: int, phase_h: int
) -> None:
    """Usage grows bucket by bucket; at each instant PBS multiplies all of it, and flux shifts its bins by one."""
    pbs = Window.of(aging="pbs", decay_time_s=period_h * HOUR, decay_factor=0.25, phase_s=phase_h * HOUR)
    flux = Window.of(aging="flux", half_life_s=period_h * HOUR, periods=3, phase_s=phase_h * HOUR)
    amounts = {hour: float(index + 1) for index, hour in enumerate(hours)}
    stepped, bins = 0.0, [0.0, 0.0, 0.0]
    for hour in range(-301, 100):
        begin = hour * HOUR
        if begin > as_of_s:
            break
        if (hour - phase_h) % period_h == 0:
            stepped *= 0.25
            bins = [0.0, *bins[:2]]
        if begin < as_of_s:
            stepped += amounts.get(hour, 0.0)
            bins[0] += amounts.get(hour, 0.0)
    binned = sum(amount * 0.5**age for age, amount in enumerate(bins))
    starts = np.array(list(amounts)) * HOUR
    values = np.array(list(amounts.values()))
    assert float((bucket_weights(starts, as_of_s, pbs) * values).sum()) == pytest.approx(stepped, rel=1e-12)
    assert float((bucket_weights(starts, as_of_s, flux) * values).sum()) == pytest.approx(binned, rel=1e-12)


def test_usage_right_before_an_instant_is_decayed_at_it_and_usage_after_it_is_not() -> None:
    window = Window.of(aging="pbs", decay_time_s=DAY)
    starts = [-2 * HOUR, -HOUR, 0, HOUR]
    assert bucket_weights(starts, -1, window).tolist() == [1, 1, 0, 0]
    assert bucket_weights(starts, 0, window).tolist() == [0.5, 0.5, 0, 0]
    assert bucket_weights(starts, 2 * HOUR, window).tolist() == [0.5, 0.5, 1, 1]


def test_flux_ignores_usage_older_than_its_periods() -> None:
    window = Window(aging="flux")
    assert window.reach_s == 4 * WEEK
    starts = [-HOUR - n * WEEK for n in range(6)]
    assert bucket_weights(starts, 1, window).tolist() == [0.5, 0.25, 0.125, 0, 0, 0]


@given(st.lists(st.floats(0, 1e10), min_size=2, max_size=20), st.floats(0, 1e10))
def test_a_weight_never_grows_with_age(ages: list[float], as_of_s: float) -> None:
    ages.sort()
    for window in windows():
        found = weights(ages, window, as_of_s)
        assert ((found >= 0) & (found <= 1)).all(), window
        assert (np.diff(found) <= 0).all(), window


def test_usage_outside_the_window_does_not_count() -> None:
    for window in [*windows(), Window(length_s=DAY, aging="flux")]:
        if window.reach_s is not None:
            assert weights([window.reach_s, 2 * window.reach_s], window, 5.0).tolist() == [0, 0], window
    assert Window(length_s=DAY, aging="flux").reach_s == DAY
    assert Window(aging="slurm").reach_s is None


AGES_S = np.concatenate([[0.0], np.geomspace(1.0, 200 * 365 * DAY, 2_000)])
# Not at an instant at which `pbs` and `flux` decay all usage.
AS_OF_S = 1_700_000_123.5


@pytest.mark.parametrize("name", DECAY_FUNCTIONS)
def test_every_decay_function_gives_weights(name: str) -> None:
    """With its defaults and with each parameter at both ends of its range: what `DecayFunction` says of weights."""
    function = DECAY_FUNCTIONS[name]
    given = WITH_ALL_PARAMETERS.get(name, {})
    usual = {one.name: one.read(given.get(one.name, one.default)) for one in function.parameters}
    ends = [(one, end) for one in function.parameters for end in (one.minimum, one.maximum) if end is not None]
    for settings in [usual, *({**usual, one.name: one.read(end)} for one, end in ends)]:
        found = function.weigh(AGES_S, AS_OF_S, settings)
        assert found.shape == AGES_S.shape
        assert found[0] == 1.0, settings
        assert ((found >= 0) & (found <= 1)).all(), settings
        assert (np.diff(found) <= 0).all(), settings
        assert np.array_equal(function.weigh(AGES_S[::-3], AS_OF_S, settings), found[::-3])
        reach_s = function.reach_s(settings)
        assert reach_s is None or not found[reach_s <= AGES_S].any(), settings


def test_a_window_keeps_the_parameters_of_its_own_function() -> None:
    everything = dict.fromkeys(decay_parameter_names(), 1)
    for name, function in DECAY_FUNCTIONS.items():
        window = Window(7.0, name, everything)
        assert set(window.parameters) == {one.name for one in function.parameters}
        assert set(window.settings) == set(window.parameters)
        shorter = replace(window, length_s=5.0)
        rest = {key: value for key, value in window.settings.items() if key != "length_s"}
        assert rest.items() <= shorter.settings.items()
        assert shorter.reach_s is not None
        assert shorter.reach_s <= 5.0


def test_every_decay_function_describes_itself() -> None:
    for name, function in DECAY_FUNCTIONS.items():
        assert function.name == name
        assert function.label
        assert function.formula
        assert function.reference
        for parameter in function.parameters:
            assert parameter.label
            assert parameter.unit or parameter.name in ("factor", "decay_factor", "periods")
            if parameter.default is not None:
                assert parameter.read(parameter.default) == parameter.default


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"aging": "slurm", "half_life_s": 0.5}, "half_life_s"),
        ({"aging": "gridengine", "halftime_h": -1}, "halftime_h"),
        ({"aging": "lsf", "hist_hours": float("nan")}, "hist_hours"),
        ({"aging": "pbs", "decay_factor": 1.5}, "decay_factor"),
        ({"aging": "pbs", "decay_time_s": 0}, "decay_time_s"),
        ({"aging": "flux", "periods": 0}, "periods"),
        ({"aging": "flux", "periods": 2.5}, "periods"),
        ({"aging": "flux", "phase_s": -1}, "phase_s"),
    ],
)
def test_a_parameter_out_of_range_is_refused(settings: dict[str, Any], place: str) -> None:
    with pytest.raises(BadParameter) as refused:
        Window.of(**settings)
    assert refused.value.place == place
