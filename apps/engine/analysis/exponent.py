"""How far an account's own ratio counts under the depth-oblivious factor, where its parent is on the other side."""

from __future__ import annotations

import numpy as np

from apps.engine.arrays import FloatArray

CURVE = (0.2, 5.0)  # ratios of the parent, as the manual's figure has them


def exponent_of(parent_ratio: FloatArray) -> FloatArray:
    """k = 1 / (1 + (5 ln R_parent)²), 0..1, for parents R > 0 on the other side of 1 than the entry itself.

    Source: Slurm's manual, *Depth-Oblivious Fair-share Factor*, figure 1.
    """
    k: FloatArray = 1.0 / (1.0 + (5.0 * np.log(parent_ratio)) ** 2)
    return k


def curve(n: int = 101) -> tuple[FloatArray, FloatArray]:
    """(R_parent, k), n points evenly in log R_parent, the middle one at 1."""
    ratio = np.exp(np.linspace(np.log(CURVE[0]), np.log(CURVE[1]), n))
    ratio[n // 2] = 1.0
    return ratio, exponent_of(ratio)
