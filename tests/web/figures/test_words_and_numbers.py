"""Numbers and sentences of whole lines are those that one gets one by one."""

from __future__ import annotations

from math import isfinite

import numpy as np
from django.utils import translation
from hypothesis import example, given
from hypothesis import strategies as st

from apps.priorities.sentences.numbers import compare_shares
from apps.priorities.sentences.numbers import points as points_text
from apps.web.figures import axes
from apps.web.figures.used_and_target import compared_texts, used_words_of

_NUMBERS = st.floats(width=64) | st.integers(-(10**7), 10**7).map(lambda n: n / 200)  # among them ties such as 0.125
_SHARES = st.floats(0, 1) | st.integers(0, 4000).map(lambda n: n / 4000) | st.just(float("nan"))


@given(st.lists(_NUMBERS, max_size=20), st.integers(0, 4))
@example([2.675, 1.005, 0.125, -0.125, 0.375, -0.004, 1e300, float("inf"), float("nan")], 2)
def test_numbers_are_rounded_like_python(values: list[float], digits: int) -> None:
    expected = [round(one, digits) if isfinite(one) else None for one in values]
    found = axes.rounded(np.array(values), digits)
    assert list(map(repr, found)) == list(map(repr, expected))  # also the sign of zero


def test_unknown_values_are_gaps() -> None:
    assert axes.rounded([None, 1.25, float("nan")], 1) == [None, 1.2, None]


@given(st.lists(st.tuples(_SHARES, _SHARES, st.sampled_from(["on", "over", "no_demand", "starved", ""])), max_size=20))
@example([(0.0, 0.0005, "over"), (0.0004, 0.001, "under"), (0.00049999999999999999, 0.0015, ""), (1.0, 0.0025, "over")])
@example([(0.00025, 0.0, "over")])  # rounded to 0.0 points, and still over
def test_a_line_has_the_text_of_each_point(points: list[tuple[float, float, str]]) -> None:
    actual, target = (np.array([point[column] for point in points], np.float64) for column in (0, 1))
    found = used_words_of(actual, target, [state for _actual, _target, state in points], target * 0.5)
    assert found == [_words(*point) for point in points]


@given(st.lists(st.tuples(_SHARES, _SHARES), max_size=20))
@example([(0.0, 0.0005), (0.0004, 0.001), (0.00049999999999999999, 0.0015), (float("nan"), 0.0025), (0.4995, 0.4996)])
def test_shares_of_a_line_are_rounded_for_each_other(points: list[tuple[float, float]]) -> None:
    actual, target = (np.array([point[column] for point in points], np.float64) for column in (0, 1))
    expected = [compare_shares(*point) for point in points]
    assert compared_texts(actual, target) == (
        [shares.actual for shares in expected],
        [shares.target for shares in expected],
    )


def test_texts_are_in_the_active_language() -> None:
    numbers = np.array([0.5]), np.array([0.25]), ["over"], np.array([0.05])
    english = used_words_of(*numbers)
    with translation.override("de"):
        german = used_words_of(*numbers)
    assert english == ["used 50.0\u00a0%, target 25.0\u00a0%, 25.0 points over"]
    assert "50,0\u00a0%" in german[0]
    assert used_words_of(*numbers) == english


def _words(actual: float, target: float, state: str) -> str:
    """As a reader would put them together."""
    if not isfinite(actual) or not isfinite(target):
        return "no data"
    shares = compare_shares(actual, target)
    direction = "over" if actual > target else "under"
    is_wide = abs(actual - target) > max(0.1 * target, 0.005) * (1 + 1e-9) + 1e-12  # no reader would call it on target
    on = f"on target, ±{points_text(0.5 * target)}" if is_wide else "on target"
    balance = {"on": on, "no_demand": "no demand"}.get(state, f"{shares.points_phrase} {direction}")
    return f"used {shares.actual}, target {shares.target}, {balance}"
