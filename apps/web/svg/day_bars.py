"""Coordinates of one bar a day, from the first day with data to today."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 560, 96
_GAP, _LEAST_HEIGHT = 2.0, 1.0
_WIDEST = 40.0  # of a few days


@dataclass(frozen=True, slots=True)
class DayBar:
    """Pixels of the view box, as text, so that no locale writes a decimal comma. title: what it shows."""

    x: str
    y: str
    width: str
    height: str
    title: str


def draw_days(amounts: Sequence[float], titles: Sequence[str]) -> list[DayBar]:
    """One bar for each amount ≥ 0, on a scale whose end is the largest; none where all are 0."""
    most = max(amounts, default=0.0)
    if most <= 0:
        return []
    step = min(WIDTH / len(amounts), _WIDEST)
    bars = []
    for at, (amount, title) in enumerate(zip(amounts, titles, strict=True)):
        height = max(amount / most * HEIGHT, _LEAST_HEIGHT) if amount > 0 else 0.0
        bars.append(
            DayBar(f"{at * step:.1f}", f"{HEIGHT - height:.1f}", f"{max(step - _GAP, 1.0):.1f}", f"{height:.1f}", title)
        )
    return bars
