"""One line of days, with the publishes in between: numbers in, coordinates out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from math import isfinite

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
    """`lines` and `areas`: stretches of days that are known. `end`: the last known day."""

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
    """points: one a day, NaN where nothing is known. publishes: the day's place and what it is called.

    None where there are fewer than two days to draw.
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
