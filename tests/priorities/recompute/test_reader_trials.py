"""Trials of readers who don't see all usage: in steps about what is hidden, exact about the rest."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from apps.priorities.recompute.reader_trials import STEPS_A_DECADE, in_steps

STEP = 10 ** (1 / STEPS_A_DECADE)


@given(st.floats(1e-9, 1e15))
def test_a_step_is_within_half_a_step_and_has_no_other_step(amount: float) -> None:
    (found,) = in_steps(np.array([amount])).tolist()
    assert STEP**-0.5001 <= found / amount <= STEP**0.5001
    assert in_steps(np.array([found])).tolist() == [found]


def test_no_usage_stays_none() -> None:
    assert in_steps(np.zeros(3)).tolist() == [0.0, 0.0, 0.0]
