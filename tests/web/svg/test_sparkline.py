"""Sparklines: a gap stays a gap, and too little is not drawn."""

from __future__ import annotations

from math import nan

import pytest

from apps.web.svg.sparkline import draw_sparkline


@pytest.mark.parametrize(
    ("points", "lengths"),
    [
        ((1.0, 2.0, 3.0), [3]),
        ((1.0, nan, nan, 3.0, 4.0), [1, 2]),
        ((nan, 1.0, 2.0, nan), [2]),
        ((nan, 1.0, nan, 2.0, nan, 3.0), [1, 1, 1]),
    ],
)
def test_each_run_of_known_days_is_one_line(points: tuple[float, ...], lengths: list[int]) -> None:
    drawn = draw_sparkline([point / 10 for point in points], 0.2, state="on")
    assert drawn is not None
    assert [len(line.split()) for line in drawn.points] == lengths


@pytest.mark.parametrize("points", [(), (1.0,), (nan, nan), (nan, 1.0, nan)])
def test_a_line_needs_two_known_days(points: tuple[float, ...]) -> None:
    assert draw_sparkline(points, 0.5, state="on") is None


def test_a_sparkline_without_a_last_day_or_a_target_has_no_mark_for_it() -> None:
    drawn = draw_sparkline([0.1, 0.2, nan], None, state="on")
    assert drawn is not None
    assert (drawn.end, drawn.target_y) == (None, None)
