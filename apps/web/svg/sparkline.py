"""Coordinates of the sparkline beside an entry: its actual share by day, with its target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

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
    drawn = tuple(" ".join(stretch) for stretch in stretches if stretch)
    return Sparkline(drawn, y(target) if has_target and target is not None else None, end, state)
