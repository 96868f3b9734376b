"""Charges of single jobs against the loop of Slurm's controller, tick by tick."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apps.engine.decay import Window
from apps.engine.slurm_charge import PeriodCharge

HALF_LIFE_S = 7_200


def charge_by_loop(
    start_s: int, end_s: int, as_of_s: int, *, period_s: int, phase_s: int, day_s: int | None = None
) -> float:
    """Usage of a job with one CPU: each tick decays what there is and charges a slice; an end charges at once.

    day_s: usage is set to zero at the first tick at or after each multiple of it, before that tick charges.
    """
    d = 1 - 0.693 / HALF_LIFE_S
    usage, last_s = 0.0, (start_s - phase_s) // period_s * period_s + phase_s
    while last_s <= as_of_s:
        tick_s = last_s + period_s
        begin_s = max(last_s, start_s)
        ends_first = start_s < end_s <= tick_s and last_s < end_s < as_of_s
        if ends_first:
            usage += (end_s - begin_s) * d ** (end_s - begin_s)
        if tick_s > as_of_s:
            break
        if day_s and last_s // day_s < tick_s // day_s:
            usage = 0.0
        usage *= d**period_s
        if end_s >= tick_s and not ends_first:
            usage += (tick_s - begin_s) * d ** (tick_s - begin_s)
        last_s = tick_s
    return usage


@given(
    start_s=st.integers(0, 20_000),
    ran_s=st.integers(0, 30_000),
    as_of_s=st.integers(0, 60_000),
    period_s=st.sampled_from([1, 60, 300, 420, 3_600]),
    phase_s=st.integers(0, 400),
    cut_s=st.integers(0, 60_000),
)
def test_a_job_is_charged_as_the_controller_charges_it(
    start_s: int, ran_s: int, as_of_s: int, period_s: int, phase_s: int, cut_s: int
) -> None:
    window = Window.of(aging="slurm", half_life_s=HALF_LIFE_S, calc_period_s=period_s, phase_s=phase_s)
    charge, end_s = PeriodCharge(window, as_of_s), start_s + ran_s
    given = np.array([float(start_s)]), np.array([float(end_s)])
    whole = charge.charged_s(*given)
    expected = charge_by_loop(start_s, end_s, as_of_s, period_s=period_s, phase_s=phase_s)
    assert whole[0] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    before = charge.charged_until_s(np.array([float(cut_s)]), *given)
    assert before[0] + charge.charged_s(*given, from_s=np.array([float(cut_s)]))[0] == pytest.approx(
        whole[0], rel=1e-12, abs=1e-9
    )
    assert -1e-9 <= before[0] <= whole[0] + 1e-9


@given(
    start_s=st.integers(40_000, 130_000),
    ran_s=st.integers(0, 100_000),
    as_of_s=st.integers(40_000, 200_000),
    period_s=st.sampled_from([60, 300, 420, 3_600]),
    phase_s=st.integers(0, 400),
)
@example(start_s=80_000, ran_s=6_400, as_of_s=86_400, period_s=300, phase_s=0)
@example(start_s=80_000, ran_s=20_000, as_of_s=86_400, period_s=300, phase_s=0)
@example(start_s=80_000, ran_s=6_500, as_of_s=86_500, period_s=300, phase_s=150)
def test_a_daily_reset_leaves_what_the_controller_leaves(
    start_s: int, ran_s: int, as_of_s: int, period_s: int, phase_s: int
) -> None:
    parameters = {"half_life_s": HALF_LIFE_S, "calc_period_s": period_s, "phase_s": phase_s}
    window = Window(None, "slurm", parameters, reset="daily")
    end_s = start_s + ran_s
    charged = PeriodCharge(window, as_of_s).charged_s(np.array([float(start_s)]), np.array([float(end_s)]))
    day_s = 86_400
    expected = charge_by_loop(start_s, end_s, as_of_s, period_s=period_s, phase_s=phase_s, day_s=day_s)
    assert charged[0] == pytest.approx(expected, rel=1e-9, abs=1e-7)


def test_only_windows_without_a_length_charge_by_period() -> None:
    assert Window.of(aging="slurm", calc_period_s=300).charges_by_period
    assert not Window.of(aging="slurm", calc_period_s=300, length_s=86_400).charges_by_period
    assert not Window(aging="slurm").charges_by_period
    assert not Window.of(aging="exponential", half_life_s=7_200).charges_by_period
