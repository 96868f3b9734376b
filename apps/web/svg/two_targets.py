"""A small picture of a share by day with two targets: in force, and in a draft."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from django.utils.safestring import SafeString

from apps.web.figures.elements import element, joined

WIDTH, HEIGHT = 160, 36
_EDGE = 3.0


def draw_two_targets(actual: Sequence[float], target: Sequence[float], target_was: Sequence[float]) -> SafeString:
    """Each: fractions by day, oldest first, NaN where unknown. Hidden from screen readers: numbers stand beside it."""
    highest = (
        max((value for row in (actual, target, target_was) for value in row if isfinite(value)), default=0.0) or 1.0
    )
    step = (WIDTH - 2 * _EDGE) / max(len(actual), 1)

    def line(values: Sequence[float]) -> str:
        """Each day is as wide as its value holds."""
        path, is_down = [], False
        for day, value in enumerate(values):
            if not isfinite(value):
                is_down = False
                continue
            left, y = _EDGE + day * step, HEIGHT - _EDGE - value / highest * (HEIGHT - 2 * _EDGE)
            path.append(f"{'L' if is_down else 'M'}{left:.1f} {y:.1f}H{left + step:.1f}")
            is_down = True
        return "".join(path)

    rows = (("was", target_was), ("target", target), ("line", actual))
    parts = [element("path", "", **{"class": css}, d=path) for css, values in rows if (path := line(values))]
    return element(
        "svg",
        joined(parts),
        **{"class": "two-targets"},
        width=WIDTH,
        height=HEIGHT,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        aria_hidden="true",
        focusable="false",
    )
