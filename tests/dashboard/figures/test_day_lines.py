"""Lines over days: a gap stays a gap, and too little is not drawn."""

from __future__ import annotations

from datetime import date, timedelta
from math import nan

import pytest

from apps.dashboard.figures.day_lines import DeviationLine, draw_deviation, draw_sparkline

FIRST = date(2026, 11, 1)


def deviation(*points: float) -> DeviationLine | None:
    days = [FIRST + timedelta(n) for n in range(len(points))]
    return draw_deviation(points, days=days, day_labels={}, publishes=[], width=600, end_label="x")


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
    drawn = deviation(*points)
    assert drawn is not None
    assert [len(line.split()) for line in drawn.lines] == lengths
    assert len(drawn.areas) == len(lengths)
    shares = draw_sparkline([point / 10 for point in points], 0.2, state="on")
    assert shares is not None
    assert [len(line.split()) for line in shares.points if line] == lengths


def test_the_end_of_a_line_is_its_last_known_day() -> None:
    drawn = [deviation(1.0, 2.0, last) for last in (3.0, nan)]
    ends = [one.end for one in drawn if one is not None and one.end is not None]
    assert len(ends) == 2
    assert ends[0][0] > ends[1][0]


@pytest.mark.parametrize("points", [(), (1.0,), (nan, nan), (nan, 1.0, nan)])
def test_a_line_needs_two_known_days(points: tuple[float, ...]) -> None:
    assert deviation(*points) is None
    assert draw_sparkline(points, 0.5, state="on") is None


def test_a_sparkline_without_a_last_day_or_a_target_has_no_mark_for_it() -> None:
    drawn = draw_sparkline([0.1, 0.2, nan], None, state="on")
    assert drawn is not None
    assert (drawn.end, drawn.target_y) == (None, None)
