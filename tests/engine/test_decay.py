"""Windows and weights by age, against one bucket at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.engine.decay import Window, bucket_weights, weights
from apps.engine.errors import BadParameter
from tests.oracles import engine as oracles

HOUR = 3600
DAY = 24 * HOUR
WINDOWS: list[tuple[Window, Callable[[float], float]]] = [
    (Window(), lambda age: 1.0),
    (Window(length_s=2 * DAY), lambda age: 1.0 if age < 2 * DAY else 0.0),
    (Window.of(aging="exponential", half_life_s=DAY), lambda age: 2 ** (-age / DAY)),
    (Window(length_s=3 * DAY, aging="linear"), lambda age: max(0.0, 1 - age / (3 * DAY))),
    (Window.of(aging="step", granularity_s=DAY, factor=0.5), lambda age: 0.5 ** math.floor(age / DAY)),
    (
        Window.of(length_s=5 * DAY, aging="step", granularity_s=DAY, factor=0.0),
        lambda age: 1.0 if age < DAY else 0.0,
    ),
]


@pytest.mark.parametrize("chosen", WINDOWS, ids=lambda chosen: f"{chosen[0].aging}-{chosen[0].length_s}")
@given(hours=st.lists(st.integers(-200, 10), max_size=20), as_of_s=st.integers(-DAY, DAY))
@pytest.mark.paper("4.29", "4.40")
def test_decayed_sums_equal_one_bucket_at_a_time(
    hours: list[int], as_of_s: int, chosen: tuple[Window, Callable[[float], float]]
) -> None:
    window, weight_of_age = chosen
    starts = np.array(hours, dtype=np.int64) * HOUR
    amounts = np.arange(1, len(hours) + 1, dtype=np.float64)
    expected = oracles.decayed_sum(list(zip(starts.tolist(), amounts.tolist(), strict=True)), as_of_s, weight_of_age)
    assert float((bucket_weights(starts, as_of_s, window) * amounts).sum()) == pytest.approx(expected, rel=1e-12)


def test_the_current_bucket_counts_completely_and_later_ones_do_not() -> None:
    window = Window.of(aging="exponential", half_life_s=HOUR)
    starts = [-2 * HOUR, -HOUR, -HOUR + 1, 0, HOUR]
    assert bucket_weights(starts, 0, window).tolist() == [0.5, 1.0, 1.0, 0.0, 0.0]


def test_a_window_ends_before_its_length() -> None:
    assert weights([0, DAY - 1, DAY, DAY + 1], Window(length_s=DAY)).tolist() == [1, 1, 0, 0]


def test_uniform_decay_changes_no_share() -> None:
    window = Window.of(aging="exponential", half_life_s=DAY)
    starts = np.arange(-100, 0) * HOUR
    now, later = bucket_weights(starts, 0, window), bucket_weights(starts, 9 * DAY, window)
    np.testing.assert_allclose(now / now.sum(), later / later.sum(), rtol=1e-12)


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"aging": "magic"}, "aging"),
        ({"aging": "linear"}, "length_s"),
        ({"aging": "exponential"}, "half_life_s"),
        ({"aging": "step", "factor": 0.5}, "granularity_s"),
        ({"aging": "step", "granularity_s": 5}, "factor"),
        ({"aging": "step", "granularity_s": 5, "factor": 1.5}, "factor"),
        ({"length_s": 0}, "length_s"),
        ({"half_life_s": float("nan")}, "half_life_s"),
        ({"granularity_s": float("inf")}, "granularity_s"),
    ],
)
def test_an_invalid_window_is_rejected(settings: dict[str, Any], place: str) -> None:
    with pytest.raises(BadParameter) as refused:
        Window.of(**settings)
    assert refused.value.place == place


def test_usage_that_counts_begins_at_the_later_of_reach_and_reset() -> None:
    """1970-01-01 was a Thursday: weekly usage is reset on Sunday, 4 January, at 00:00 UTC."""
    sunday = 3 * DAY
    as_of_s = sunday + 5 * DAY
    assert Window().begins_s(as_of_s) is None
    assert Window.of(aging="exponential", half_life_s=DAY).begins_s(as_of_s) is None
    assert Window(length_s=2 * DAY).begins_s(as_of_s) == as_of_s - 2 * DAY
    weekly: dict[str, Any] = {"reset": "weekly", "reset_zone": "UTC"}
    assert Window(length_s=2 * DAY, **weekly).begins_s(as_of_s) == as_of_s - 2 * DAY
    assert Window(length_s=7 * DAY, **weekly).begins_s(as_of_s) == sunday
    assert Window(**weekly).begins_s(as_of_s) == sunday
    for window in (Window(length_s=2 * DAY), Window(length_s=7 * DAY, **weekly), Window(**weekly)):
        begins_s = window.begins_s(as_of_s)
        assert begins_s is not None
        starts = begins_s + np.array([-2 * HOUR, -HOUR, 0, HOUR])
        assert bucket_weights(starts, as_of_s, window).tolist() == [0.0, 0.0, 1.0, 1.0]
