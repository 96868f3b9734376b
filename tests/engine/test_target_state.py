"""One rule says whether a share is on its target: for one entry, for arrays, by day, and turned round."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.engine.convergence import DayState, day_states
from apps.engine.target_state import is_off_target, is_on_target, slack_of, state_of, states_of, targets_on
from tests.each_case import each_case

SHARES = st.floats(0, 1)
TOLERANCES = st.fixed_dictionaries({"relative": st.floats(0, 2), "points": st.floats(0, 100)})
NEAR = Fraction(1, 10**8)  # of the edge: there rounding may decide


def exact_distance(actual: float, target: float, tolerance: dict[str, float]) -> Fraction:
    """How far beyond the tolerance, in exact numbers: below 0 within it."""
    relative, points = Fraction(tolerance["relative"]), Fraction(tolerance["points"])
    return abs(Fraction(actual) - Fraction(target)) - max(relative * Fraction(target), points / 100)


@given(SHARES, SHARES, TOLERANCES, st.booleans(), st.booleans())
def test_a_state_is_that_of_exact_numbers(
    actual: float, target: float, tolerance: dict[str, float], used: bool, waits: bool
) -> None:
    beyond = exact_distance(actual, target, tolerance)
    state = state_of(target=target, actual=actual, has_usage=used, has_demand=waits, tolerance=tolerance)
    if target > 0 and not used and not waits:
        assert state == "idle"
    elif beyond > NEAR:
        assert state == ("over" if actual > target else "under")
    elif beyond <= 0:
        assert state == "on"
    else:
        assert state in ("on", "over", "under")


@given(st.lists(st.tuples(SHARES, SHARES, st.booleans(), st.booleans()), min_size=1, max_size=8), TOLERANCES)
def test_one_entry_many_entries_and_days_have_the_same_state(
    entries: list[tuple[float, float, bool, bool]], tolerance: dict[str, float]
) -> None:
    actual, target = (np.array([entry[column] for entry in entries]) for column in (0, 1))
    used, waits = (np.array([entry[column] for entry in entries], dtype=np.bool_) for column in (2, 3))
    alone = [
        state_of(target=goal, actual=share, has_usage=ran, has_demand=asks, tolerance=tolerance)
        for share, goal, ran, asks in entries
    ]
    slack, is_idle = slack_of(target, tolerance), ~used & ~waits & (target > 0)
    assert states_of(actual, target, slack, is_idle).tolist() == alone
    assert is_off_target(actual, target, slack, is_idle).tolist() == [state in ("over", "under") for state in alone]
    days = day_states(
        actual=actual,
        target=target,
        tolerance=slack,
        used=used.astype(np.float64),
        waited=waits.astype(np.float64),
        knows_waiting=np.ones(len(entries), np.bool_),
        competes=np.ones(len(entries), np.bool_),
    )
    names = {DayState.ON: "on", DayState.OVER: "over", DayState.STARVED: "under", DayState.MET: "under"}
    busy = (used | waits).tolist()
    assert [names[DayState(day)] for day, is_busy in zip(days, busy, strict=True) if is_busy] == [
        state for state, is_busy in zip(alone, busy, strict=True) if is_busy
    ]


@given(SHARES, SHARES, TOLERANCES)
def test_the_targets_that_a_share_is_on_are_those_whose_state_is_on(
    actual: float, target: float, tolerance: dict[str, float]
) -> None:
    """What the editor's script compares with: no rule of its own."""
    least, most = targets_on(actual, tolerance)
    is_within = least <= target and (most is None or target <= most)
    if abs(exact_distance(actual, target, tolerance)) > NEAR * 10:
        assert is_within == is_on_target(actual, target, slack_of(target, tolerance))


@each_case(
    ("actual", "target", "relative", "points"),
    [
        (0.55, 0.5, 0.1, 0.0),
        (0.45, 0.5, 0.1, 0.0),
        (0.505, 0.5, 0.0, 0.5),
        (0.495, 0.5, 0.0, 0.5),
        (0.1 + 0.2, 0.3, 0.0, 0.0),
        (0.3, 0.1 + 0.2, 0.0, 0.0),
    ],
)
def test_a_target_is_among_those_of_a_share_that_reaches_its_edge(
    actual: float, target: float, relative: float, points: float
) -> None:
    least, most = targets_on(actual, {"relative": relative, "points": points})
    assert most is not None
    assert least <= target <= most


def test_the_targets_of_a_share_end_where_the_tolerance_does() -> None:
    assert targets_on(0.5, {"relative": 0.0, "points": 5.0}) == pytest.approx((0.45, 0.55), rel=1e-8)
    assert targets_on(0.5, {"relative": 0.1, "points": 0.0}) == pytest.approx((0.5 / 1.1, 0.5 / 0.9), rel=1e-8)
    assert targets_on(0.01, {"relative": 0.1, "points": 5.0}) == pytest.approx((0.0, 0.06), rel=1e-8)
    least, most = targets_on(0.5, {"relative": 1.0, "points": 0.0})
    assert least == pytest.approx(0.25, rel=1e-8)
    assert most is None


@pytest.mark.parametrize(
    ("actual", "target", "tolerance", "state"),
    [
        (0.33, 0.3, {"relative": 0.1, "points": 0.0}, "on"),  # 0.33 − 0.3 > 0.03 by the last bit
        (0.724, 0.5, {"relative": 0.5, "points": 0.5}, "on"),
        (0.724, 0.5, {"relative": 0.1, "points": 0.5}, "over"),
        (0.005, 0.0, {"relative": 0.1, "points": 0.5}, "on"),
        (0.00502, 0.0, {"relative": 0.1, "points": 0.5}, "over"),
        (0.0, 0.0, {"relative": 0.0, "points": 0.0}, "on"),
        (0.1 + 0.2, 0.3, {"relative": 0.0, "points": 0.0}, "on"),
    ],
)
def test_an_edge_that_is_reached_counts_as_on_target(
    actual: float, target: float, tolerance: dict[str, Any], state: str
) -> None:
    assert state_of(target=target, actual=actual, has_usage=True, has_demand=False, tolerance=tolerance) == state


def test_what_is_not_known_has_no_state() -> None:
    unknown = np.array([np.nan])
    assert not is_off_target(unknown, np.array([0.5]), np.array([0.05]), np.array([False])).any()
    known: dict[str, Any] = {"has_usage": True, "has_demand": False, "tolerance": {"relative": 0.1, "points": 0.5}}
    assert state_of(target=None, actual=0.5, **known) == state_of(target=0.5, actual=None, **known) == "unknown"
