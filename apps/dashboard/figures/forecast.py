"""The curve of a forecast: what was, what is likely, and between what it may lie. Numbers in, drawing out.

x is an instant in days from now, y a part of the group, 0..1. Words are made elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 760, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 34.0, 664.0, 26.0, 206.0
_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
_MOST_LINES = 5
_LABEL_WIDTH = 235.0
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Ahead:
    """At so many days from now: likely, between the quartiles, and between the least and the most."""

    days: float
    middle: float
    low: float
    lower: float
    upper: float
    high: float


@dataclass(frozen=True, slots=True)
class Meeting:
    """Days from now at which a part is met: the likely one, soonest and latest where they are known."""

    part: float
    middle: float
    soonest: float | None
    latest: float | None


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the grid, or a day on the axis."""

    at: float
    text_at: float
    label: str


@dataclass(frozen=True, slots=True)
class Met:
    """Where it is met: a dot, the range as a line, and where its words stand."""

    x: float
    y: float
    range_path: str
    text_x: float
    text_y: float
    anchor: str


@dataclass(frozen=True)
class Curve:
    """Coordinates of the whole drawing."""

    so_far: str
    likely: str
    fan: str
    quartiles: str
    band_y: float
    band_height: float
    target_y: float
    now_x: float
    now_y: float
    lines: Sequence[Line]
    days: Sequence[Line]
    met: Met | None


def draw(
    *, so_far: Sequence[Point], ahead: Sequence[Ahead], now: float, target: float, slack: float,
    meeting: Meeting | None, day_labels: Callable[[int], str],
) -> Curve:  # fmt: skip
    """so_far: (days from now, part), the former below 0. day_labels: how a day that many from now is written."""
    first = min([days for days, _ in so_far], default=0.0)
    last = max([point.days for point in ahead], default=1.0)
    parts = [now, target + slack, max(target - slack, 0.0), *(part for _, part in so_far)]
    parts += [edge for point in ahead for edge in (point.low, point.high)]
    bottom, top, step = _scale(min(parts), max(parts))

    def x(days: float) -> float:
        return round(_LEFT + (days - first) / (last - first) * (_RIGHT - _LEFT), 1)

    def y(part: float) -> float:
        return round(_BOTTOM - (min(max(part, bottom), top) - bottom) / (top - bottom) * (_BOTTOM - _TOP), 1)

    def points(pairs: Sequence[Point]) -> str:
        return " ".join(f"{x(days)},{y(part)}" for days, part in pairs)

    def between(low: Callable[[Ahead], float], high: Callable[[Ahead], float]) -> str:
        there = [(point.days, low(point)) for point in ahead]
        back = [(point.days, high(point)) for point in reversed(ahead)]
        return points([*there, *back])

    n_lines = round((top - bottom) / step)
    values = [bottom + n * step for n in range(n_lines + 1)]
    band_y = y(target + slack)
    return Curve(
        so_far=points([*so_far, (0.0, now)]) if so_far else "",
        likely=points([(point.days, point.middle) for point in ahead]),
        fan=between(lambda one: one.low, lambda one: one.high),
        quartiles=between(lambda one: one.lower, lambda one: one.upper),
        band_y=band_y,
        band_height=round(max(y(target - slack) - band_y, 1.0), 1),
        target_y=y(target),
        now_x=x(0.0),
        now_y=y(now),
        lines=[Line(y(value), round(y(value) + 3.5, 1), _percent(value, step)) for value in values],
        days=[Line(x(day), x(day), day_labels(day)) for day in _days(first, last)],
        met=None if meeting is None or meeting.middle > last else _met(meeting, last, x, y),
    )


def _met(meeting: Meeting, last: float, x: Callable[[float], float], y: Callable[[float], float]) -> Met:
    at, height = x(meeting.middle), y(meeting.part)
    soonest = meeting.middle if meeting.soonest is None else meeting.soonest
    latest = meeting.middle if meeting.latest is None else min(meeting.latest, last)
    path = f"M{x(soonest)} {height}H{x(latest)}" if latest > soonest else ""
    fits = at + _LABEL_WIDTH < _RIGHT
    text_y = height - 11 if height - 11 > _TOP + 4 else height + 20
    return Met(at, height, path, round(at + 6 if fits else at - 6, 1), round(text_y, 1), "start" if fits else "end")


def _scale(low: float, high: float) -> tuple[float, float, float]:
    """Bottom, top and the distance of the lines: round numbers around what is drawn, never below 0."""
    spread = max(high - low, 0.002)
    step = next((each for each in _STEPS if spread / each <= _MOST_LINES), _STEPS[-1])
    bottom = max(math.floor((low - 0.1 * spread) / step) * step, 0.0)
    top = math.ceil((high + 0.05 * spread) / step) * step
    return bottom, max(top, bottom + step), step


def _percent(value: float, step: float) -> str:
    decimals = 0 if step >= 0.01 else 1
    return f"{round(value * 100, decimals) + 0.0:.{decimals}f}"


def _days(first: float, last: float) -> list[int]:
    """Whole days from now, so many that their labels don't touch."""
    step = next((each for each in (1, 2, 3, 5, 7, 14, 28) if (last - first) / each <= 9), 28)
    return [day for day in range(math.ceil(first), math.floor(last) + 1) if day % step == 0]
