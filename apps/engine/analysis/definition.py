"""Does an operator keep the definition of a priority operator, and what does it give at the boundaries?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apps.engine.arrays import FloatArray
from apps.engine.operators import Operator

_TOLERANCE = 1e-12


@dataclass(frozen=True)
class Definition:
    """What held on a grid of targets and actuals. Source: operators paper, eq. 1–4 and table 1.

    is_in_range: −1..1. has_sign: 0 on target only, above below it. rises_with_target, falls_with_actual: strictly, on
    (0, 1]. lowest_without_target: t = 0 < s gives −1. highest_without_usage: s = 0 < t gives 1. is_odd: F(s, t) is
    −F(t, s), so that what an operator does below target it does above it.
    """

    is_in_range: bool
    has_sign: bool
    rises_with_target: bool
    falls_with_actual: bool
    lowest_without_target: bool
    highest_without_usage: bool
    is_odd: bool

    @property
    def is_operator(self) -> bool:
        """Equations 1 to 3; the boundaries of equation 4 are wished for, not demanded."""
        return self.is_in_range and self.has_sign and self.rises_with_target and self.falls_with_actual

    @property
    def has_boundaries(self) -> bool:
        """Equation 4."""
        return self.lowest_without_target and self.highest_without_usage


def check_definition(operator: Operator, *, steps: int = 40) -> Definition:
    """Evaluate the operator at (i/steps, j/steps), i and j from 0 to steps; what holds there may fail between."""
    points = np.arange(steps + 1) / steps
    t, s = (axis.ravel() for axis in np.meshgrid(points, points, indexing="ij"))
    flat = operator(t, s)
    values = flat.reshape(steps + 1, steps + 1)  # rows targets, columns actuals
    inner = values[1:, 1:]
    return Definition(
        is_in_range=bool((np.abs(flat) <= 1.0 + _TOLERANCE).all()),
        has_sign=bool((np.sign(flat) == np.sign(t - s)).all()),
        rises_with_target=bool((np.diff(inner, axis=0) > 0).all()),
        falls_with_actual=bool((np.diff(inner, axis=1) < 0).all()),
        lowest_without_target=bool((np.abs(values[0, 1:] + 1.0) <= _TOLERANCE).all()),
        highest_without_usage=bool((np.abs(values[1:, 0] - 1.0) <= _TOLERANCE).all()),
        is_odd=bool((np.abs(values + values.T) <= _TOLERANCE).all()),
    )


def without_target(operator: Operator, actual: FloatArray) -> FloatArray:
    """F(0, s): what entries without shares get. Table 1, first column."""
    return operator(np.zeros_like(actual), actual)


def without_usage(operator: Operator, target: FloatArray) -> FloatArray:
    """F(t, 0): what entries that used nothing get. Table 1, second column."""
    return operator(target, np.zeros_like(target))
