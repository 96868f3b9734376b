"""A line of the last days, 64 × 18, beside numbers: where it came from and where its target stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

WIDTH, HEIGHT = 64, 18
DAYS = 14
_LEFT, _RIGHT, _TOP, _BOTTOM = 2.0, 60.0, 2.5, 15.5


@dataclass(frozen=True, slots=True)
class Sparkline:
    """`points` are stretches of days that are known; `target_y` is today's target; `state` its colour."""

    points: tuple[str, ...]
    target_y: float | None
    end: tuple[float, float] | None
    state: str


def draw(actual: Sequence[float], target: float | None, *, state: str) -> Sparkline | None:
    """Fractions 0..1, oldest first, NaN where nothing is known; the scale holds the target and all of them.

    None where there are fewer than two days to draw.
    """
    known = [value for value in actual if isfinite(value)]
    if len(known) < 2:
        return None
    has_target = target is not None and isfinite(target)
    bounds = [*known, target] if has_target and target is not None else known
    low, high = min(bounds), max(bounds)
    span = (high - low) or 1.0

    def y(value: float) -> float:
        return round(_BOTTOM - (value - low) / span * (_BOTTOM - _TOP), 1) if high > low else (_TOP + _BOTTOM) / 2

    step = (_RIGHT - _LEFT) / max(len(actual) - 1, 1)
    stretches: list[list[str]] = [[]]
    for at, value in enumerate(actual):
        if isfinite(value):
            stretches[-1].append(f"{round(_LEFT + at * step, 1):g},{y(value):g}")
        elif stretches[-1]:
            stretches.append([])
    end = (_RIGHT, y(actual[-1])) if isfinite(actual[-1]) else None
    drawn = tuple(" ".join(one) for one in stretches if one)
    return Sparkline(drawn, y(target) if has_target and target is not None else None, end, state)
