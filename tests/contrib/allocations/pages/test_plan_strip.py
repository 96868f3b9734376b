"""The strip of allocations over months: labels are where nothing else is."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from apps.contrib.allocations.pages.plan_strip import WIDTH, Plan, Span, draw_plan, first_days
from apps.contrib.allocations.periods import Period

TODAY = date(2026, 11, 20)
TEXT = "242,000 core-h, until 19 Feb 2027"
WIDE = len(TEXT) * 6.5


def plan(*days: tuple[int, int]) -> Plan:
    """Bars from–to in days from today."""
    spans = [Span(Period(TODAY + timedelta(a), TODAY + timedelta(b)), TEXT, is_covered=True) for a, b in days]
    return draw_plan([("climate", spans)], TODAY, [(day, "") for day in first_days(TODAY)])


@pytest.mark.parametrize(
    "days",
    [
        [(-90, 90)],
        [(-90, 20)],
        [(-90, -5)],
        [(-150, 120)],
        [(-150, 230)],
        [(10, 20)],
        [(-90, 30), (31, 150)],
        [(5, 230)],
    ],
)
def test_the_label_of_a_bar_overlaps_no_other_mark(days: list[tuple[int, int]]) -> None:
    drawn = plan(*days)
    (row,) = drawn.rows
    edges = [edge for bar in row.bars for edge in (bar.x, bar.x + bar.width)] + [drawn.now_x, float(WIDTH)]
    collected = [bar for bar in row.bars if bar.text]
    assert collected
    for bar in collected:
        assert not [edge for edge in edges if bar.text_x < edge < bar.text_x + WIDE]


def test_a_bar_without_room_has_no_label() -> None:
    crowded = plan(*((n, n + 9) for n in range(-170, 230, 10)))
    (row,) = crowded.rows
    assert [bool(bar.text) for bar in row.bars[:-1]] == [False] * (len(row.bars) - 1)
