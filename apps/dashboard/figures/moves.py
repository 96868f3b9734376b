"""How many leaves move how far: bars for places back, the same, and forward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_WIDTH = 160


@dataclass(frozen=True, slots=True)
class Bar:
    """`step` as in ReviewPage.histogram; the width is of the most frequent one's."""

    step: int
    n: int
    width: float


def draw(histogram: Sequence[tuple[int, int]]) -> list[Bar]:
    """Forward first, as a rank list reads."""
    most = max((n for _, n in histogram), default=0)
    return [Bar(step, n, round(_WIDTH * n / most, 1) if most else 0.0) for step, n in reversed(histogram)]
