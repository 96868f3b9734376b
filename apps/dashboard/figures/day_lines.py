"""Coordinates of line charts by day: the deviation with publications marked, and the sparkline beside an entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from math import isfinite

# --- Deviation --------------------------------------------------------------------------------------------------------
SCALES = (1, 2, 5, 10, 15, 20, 25, 30, 40, 50, 60, 75, 100)
_TOP, _BOTTOM, _LEFT, _RIGHT_ROOM = 12.0, 148.0, 30.0, 60.0
HEIGHT = 170
WIDE, NARROW = 720, 340


@dataclass(frozen=True, slots=True)
class Tick:
    at: float
    label: str
    text_at: float


@dataclass(frozen=True, slots=True)
class Publish:
    x: float
    label: str
    text_x: float


@dataclass(frozen=True)
class DeviationLine:
    """Coordinates of the deviation chart. lines, areas: one for each run of known days. end: the last known day."""

    width: int
    lines: tuple[str, ...]
    areas: tuple[str, ...]
    end: tuple[float, float] | None
    end_label: str
    rows: tuple[Tick, ...]
    days: tuple[Tick, ...]
    publishes: tuple[Publish, ...]
    right: float

    height = HEIGHT
    left, bottom, top = _LEFT, _BOTTOM, _TOP


def draw_deviation(
    points: Sequence[float],
    *,
    days: Sequence[date],
    day_labels: dict[int, str],
    publishes: Sequence[tuple[int, str]],
    end_label: str,
    width: int = WIDE,
) -> DeviationLine | None:
    """Coordinates of the deviation chart; None with fewer than two known days.

    points: one value a day, NaN if unknown. publishes: (index of the day, label) of each published revision.
    """
    known = [value for value in points if isfinite(value)]
    if len(known) < 2:
        return None
    most = next((scale for scale in SCALES if scale >= max(known)), SCALES[-1])
    right = width - _RIGHT_ROOM
    step = (right - _LEFT) / max(len(days) - 1, 1)

    def x(at: int) -> float:
        return round(_LEFT + at * step, 1)

    def y(value: float) -> float:
        return round(_BOTTOM - (_BOTTOM - _TOP) * value / most, 1)

    stretches: list[list[tuple[float, float]]] = [[]]
    for at, value in enumerate(points):
        if isfinite(value):
            stretches[-1].append((x(at), y(value)))
        elif stretches[-1]:
            stretches.append([])
    drawn = [one for one in stretches if one]
    last = max(at for at, value in enumerate(points) if isfinite(value))
    return DeviationLine(
        width=width,
        lines=tuple(_path(one) for one in drawn),
        areas=tuple(_path([(one[0][0], _BOTTOM), *one, (one[-1][0], _BOTTOM)]) for one in drawn),
        end=(x(last), y(points[last])),
        end_label=end_label,
        rows=tuple(Tick(y(part), f"{part:g}", round(y(part) + 3.5, 1)) for part in _rows(most)),
        days=tuple(Tick(x(at), label, x(at)) for at, label in day_labels.items()),
        publishes=tuple(Publish(x(at), label, round(x(at) + 6, 1)) for at, label in publishes),
        right=right,
    )


def _rows(most: float) -> list[float]:
    n = 3 if most in (15, 30, 60, 75) else 4 if most in (20, 40, 100) else 2
    return [most * part / n for part in range(n + 1)]


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)


# --- Sparkline --------------------------------------------------------------------------------------------------------
DAYS = 14
_SPARK_LEFT, _SPARK_RIGHT, _SPARK_TOP, _SPARK_BOTTOM = 2.0, 60.0, 2.5, 15.5


@dataclass(frozen=True, slots=True)
class Sparkline:
    """Coordinates of a sparkline. points: one polyline for each run of known days. target_y: of today's target.

    state: CSS class of its colour.
    """

    points: tuple[str, ...]
    target_y: float | None
    end: tuple[float, float] | None
    state: str


def draw_sparkline(actual: Sequence[float], target: float | None, *, state: str) -> Sparkline | None:
    """Sparkline of daily actual shares on a scale that holds all of them and the target; None with fewer than two days.

    actual: fractions 0..1, oldest first, NaN if unknown.
    """
    known = [value for value in actual if isfinite(value)]
    if len(known) < 2:
        return None
    has_target = target is not None and isfinite(target)
    bounds = [*known, target] if has_target and target is not None else known
    low, high = min(bounds), max(bounds)
    span = (high - low) or 1.0

    def y(value: float) -> float:
        return (
            round(_SPARK_BOTTOM - (value - low) / span * (_SPARK_BOTTOM - _SPARK_TOP), 1)
            if high > low
            else (_SPARK_TOP + _SPARK_BOTTOM) / 2
        )

    step = (_SPARK_RIGHT - _SPARK_LEFT) / max(len(actual) - 1, 1)
    stretches: list[list[str]] = [[]]
    for at, value in enumerate(actual):
        if isfinite(value):
            stretches[-1].append(f"{round(_SPARK_LEFT + at * step, 1):g},{y(value):g}")
        elif stretches[-1]:
            stretches.append([])
    end = (_SPARK_RIGHT, y(actual[-1])) if isfinite(actual[-1]) else None
    drawn = tuple(" ".join(one) for one in stretches if one)
    return Sparkline(drawn, y(target) if has_target and target is not None else None, end, state)
