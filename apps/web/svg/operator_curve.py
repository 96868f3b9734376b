"""The small picture of an operator: its priority over the actual share, for an entry whose target is a half."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apps.engine.errors import BadParameter, PackageFailed
from apps.engine.operators import DEFAULT_K, get_operator

WIDTH, HEIGHT = 56, 32
_TARGET, _N_POINTS, _EDGE = 0.5, 29, 2.0


@dataclass(frozen=True, slots=True)
class OperatorCurve:
    """points: of a polyline in a box of WIDTH × HEIGHT pixels: priority 1 is on top, actual 0 on the left."""

    points: str
    width: int = WIDTH
    height: int = HEIGHT


def draw_operator(name: str, k: float = DEFAULT_K) -> OperatorCurve | None:
    """F(t, s) at t = ½ for s in 0..1; None where its package fails or gives no number.

    Source: operators paper, figure 10.
    """
    actual = np.linspace(0.0, 1.0, _N_POINTS)
    try:
        priority = get_operator(name, k=k)(np.full(_N_POINTS, _TARGET), actual)
    except (BadParameter, PackageFailed):
        return None
    if not np.isfinite(priority).all():
        return None
    x = _EDGE + actual * (WIDTH - 2 * _EDGE)
    y = _EDGE + (1.0 - np.clip(priority, -1.0, 1.0)) / 2.0 * (HEIGHT - 2 * _EDGE)
    return OperatorCurve(" ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True)))
