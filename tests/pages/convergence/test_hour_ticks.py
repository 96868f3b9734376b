"""Courses of hours: times on their axis, at full hours, and the end's number clear of the line."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from apps.pages.convergence.figures.course import Axis, moment_of, ordinal_of
from apps.pages.convergence.figures.picture import NARROW, TILE, WIDE, axis_ticks, is_end_text_below, revision_labels

DAY = date(2026, 11, 20)
LEAST_PX = 40  # of "06:00" with room at both sides


def axis(hours: float, *, begins_at: float = 9.0, is_by_hour: bool = True) -> Axis:
    first = ordinal_of(DAY) + begins_at / 24
    last = first + hours / 24
    points = [first + n / 24 for n in range(int(hours) + 1)]
    return Axis(first, last, points, (), None, (first, last), False, is_by_hour)


@pytest.mark.parametrize("width", [WIDE, NARROW, TILE])
def test_any_stretch_of_hours_has_labels_that_say_where_they_stand(width: int) -> None:
    for hours in (2, 3, 5, 8, 12, 23, 24, 36, 48, 71, 100, 168, 400):
        for begins_at in (0.0, 0.5, 9.0, 23.0):
            shown = axis(hours, begins_at=begins_at)
            marks = axis_ticks(shown, width)
            assert marks or (hours == 2 and width != WIDE), (hours, begins_at)
            for at, text in marks:
                instant = datetime.fromisoformat(moment_of(at))
                written = f"{instant:%H:%M}" if instant.hour else f"{instant.day} {instant:%b}"
                assert text == written, (hours, begins_at, at)
                assert shown.shows(at)
            gaps = [(b - a) / (shown.last - shown.first) * width for (a, _), (b, _) in pairwise(marks)]
            assert all(gap >= LEAST_PX for gap in gaps), (hours, begins_at, gaps)


def test_days_stay_days() -> None:
    marks = axis_ticks(axis(48, begins_at=0.0, is_by_hour=False), WIDE)
    assert marks
    assert {moment_of(at) for at, _text in marks} <= {str(DAY + timedelta(days=n)) for n in range(3)}
    assert not any(re.search(":", text) for _at, text in marks)


@pytest.mark.parametrize(
    ("values", "is_below"),
    [
        ([0.9, 0.1], True),  # hours of a first morning: the line falls from far off
        ([0.1, 0.9], False),
        ([0.9, 0.9, 0.9, 0.2], True),
        ([0.9, None, 0.2], False),  # nothing leads to it
        ([0.4], False),
        ([0.2, 0.2], False),
    ],
)
def test_the_number_of_the_end_is_on_the_side_that_the_line_does_not_come_from(
    values: list[float | None], is_below: bool
) -> None:
    course: Any = SimpleNamespace(axis=axis(len(values) - 1 or 1), values=values)
    course.axis.points[len(values) :] = []
    assert is_end_text_below(course, len(values) - 1) == is_below


@pytest.mark.parametrize(
    ("revision_day", "sides"),
    [
        (1, ["right"]),
        (9, ["right"]),
        (17, ["left"]),  # to the right the line of now would cross them
        (20, ["right"]),  # of a date ahead
        (29, ["left"]),  # to the right the edge would cut them
    ],
)
def test_words_of_a_revision_end_before_the_line_of_now(revision_day: int, sides: list[str]) -> None:
    first, now = 0.0, 19.0
    days = Axis(first, 30.0, [float(n) for n in range(31)], (), now, (first, 30.0), False, False)
    tick = SimpleNamespace(at=float(revision_day), text="Rev 9: target 9.2 to 8.8 %")
    course: Any = SimpleNamespace(axis=days, revisions=[tick])
    assert ["left" if words.is_left else "right" for words in revision_labels(course)] == sides
