"""Test an operator on a grid of targets and actuals: definition, isolation, redistribution, order.

Used by the analysis for all operators, and when an operator of another package is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import BoolArray, FloatArray

Apply = Callable[[FloatArray, FloatArray], FloatArray]
_TOLERANCE = 1e-12
# Priorities closer together than this count as equal, so that rounding errors are no disagreement.
_EQUAL = 1e-9
# Points of a grid: of the definition, which is checked at each of them, and of orders, which compare each pair.
_DEFINITION_STEPS, _ORDER_STEPS = 40, 12
_ACTIVE_SHARE = 0.5
_CHOSEN = ((0.25, 0.5), (0.5, 0.25), (0.05, 0.0), (0.0, 0.3), (1.0, 0.9), (0.3, 0.3))


@dataclass(frozen=True)
class Definition:
    """Properties that held on a grid of targets and actuals. Source: operators paper, eq. 1–4 and table 1.

    is_in_range: −1..1. has_sign: 0 on target only, positive below it, negative above it. rises_with_target,
    falls_with_actual: strictly, on (0, 1]. lowest_without_target: t = 0 < s gives −1. highest_without_usage: s = 0 < t
    gives 1. is_odd: F(s, t) is −F(t, s), so that it is symmetric about the target.
    """

    is_in_range: bool
    has_sign: bool
    rises_with_target: bool
    falls_with_actual: bool
    lowest_without_target: bool
    highest_without_usage: bool
    is_odd: bool

    @property
    def has_boundaries(self) -> bool:
        """Equation 4, which is optional."""
        return self.lowest_without_target and self.highest_without_usage

    @property
    def broken(self) -> str:
        """The first part of the definition, equations 1 to 3, that doesn't hold, in words; "" if all do."""
        words = (
            (self.is_in_range, "its priorities must be numbers from −1 to 1"),
            (self.has_sign, "its priority must be above 0 below the target, and below 0 above it"),
            (self.rises_with_target, "its priority must rise with the target"),
            (self.falls_with_actual, "its priority must fall with the actual"),
        )
        return next((text for holds, text in words if not holds), "")


def check_definition(apply: Apply) -> Definition:
    """Evaluate the operator at (i/40, j/40), i and j from 0 to 40; between these points nothing is checked."""
    points = np.arange(_DEFINITION_STEPS + 1) / _DEFINITION_STEPS
    t, s = (axis.ravel() for axis in np.meshgrid(points, points, indexing="ij"))
    flat = apply(t, s)
    values = flat.reshape(len(points), len(points))  # rows are targets, columns are actuals
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


def is_entry_by_entry(apply: Apply) -> bool:
    """Whether an entry's priority is independent of other entries and of their order."""
    t, s = (np.array(column) for column in zip(*_CHOSEN, strict=True))
    together, backwards = apply(t, s), apply(t[::-1].copy(), s[::-1].copy())[::-1]
    alone = np.concatenate([apply(t[i : i + 1], s[i : i + 1]) for i in range(len(t))])
    return bool(np.array_equal(together, alone) and np.array_equal(together, backwards))


@dataclass(frozen=True)
class Agreement:
    """Number of compared pairs of entries, and of pairs that two operators order differently."""

    pairs: int
    reversed_pairs: int
    example: tuple[float, float, float, float] | None  # t_i, s_i, t_j, s_j of a reversed pair

    @property
    def share(self) -> float:
        """Part 0..1 of pairs in the same order; 1 if all are."""
        return 1.0 - self.reversed_pairs / self.pairs if self.pairs else 1.0

    @property
    def is_full(self) -> bool:
        return self.reversed_pairs == 0


def compare_orders(formula: Apply, other: Apply) -> Agreement:
    """Compare how two operators order all pairs of inputs on a grid of 1/12 … 11/12.

    A pair that is equal for one and different for the other counts as reversed. Full agreement means that the grid has
    no counterexample; equivalence of operators follows from eq. 16 of the operators paper.
    """
    points = np.arange(1, _ORDER_STEPS) / _ORDER_STEPS
    t, s = (axis.ravel() for axis in np.meshgrid(points, points))
    return _agreement(formula(t, s), other(t, s), t, s)


def check_redistribution(apply: Apply) -> Agreement:
    """Compare the order under virtual targets with the order under the given ones. Source: operators paper, eq. 15.

    Entries have t' = i/12 and t = t'/2; the other half of the shares is idle. Full agreement means that the
    operator brings active entries to their virtual targets: unused share is redistributed in proportion.
    """
    points = np.arange(1, _ORDER_STEPS) / _ORDER_STEPS
    wished, s = (axis.ravel() for axis in np.meshgrid(points, points))
    t = _ACTIVE_SHARE * wished
    return _agreement(apply(wished, s), apply(t, s), t, s)


def _agreement(priorities: FloatArray, other: FloatArray, t: FloatArray, s: FloatArray) -> Agreement:
    reversed_pairs, example = 0, None
    for i in range(len(t)):
        differ = _sign(priorities[i] - priorities[:i]) != _sign(other[i] - other[:i])
        count = int(differ.sum())
        if count and example is None:
            j = int(np.argmax(differ))
            example = (float(t[i]), float(s[i]), float(t[j]), float(s[j]))
        reversed_pairs += count
    return Agreement(len(t) * (len(t) - 1) // 2, reversed_pairs, example)


def _sign(difference: FloatArray) -> npt.NDArray[np.int8]:
    is_apart: BoolArray = np.abs(difference) > _EQUAL
    return (np.sign(difference) * is_apart).astype(np.int8)
