"""When two of flux's weights tie: doubles decide where they are certain, exact arithmetic where they aren't."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.numerics.rulers import members_of_runs
from apps.engine.numerics.walk_order import Slots

WholeNumbers = npt.NDArray[np.object_]

_MANTISSA_BITS = 53


def whole_numbers(values: FloatArray) -> WholeNumbers:
    """Doubles ≥ 0 as integers that all count in the same power of two."""
    mantissa, exponent = np.frexp(values)
    is_some = mantissa > 0
    shift = np.where(is_some, exponent - np.min(exponent, where=is_some, initial=2**15), 0)
    whole = np.ldexp(mantissa, _MANTISSA_BITS).astype(np.int64).astype(np.object_)
    found: WholeNumbers = whole << shift.astype(np.object_)
    return found


# Neighbours a ≥ b in sorted order tie where a − b < 2⁻⁵² · max(a, 1). Source: flux-accounting.
_TIE_BITS = 52
_TIE = 2.0**-_TIE_BITS

# How much of itself a double is off at most, with a margin. Beside its siblings: one quotient, times the factor of all.
# Beside others: their factors come from sums of a million doubles, over 64 levels.
_OFF_BESIDE_SIBLINGS = 2.0**-50
_OFF = 2.0**-38

# Exact weights are cut so many bits after the point: two of doubles are equal, or differ long before.
POINT = 1024


@dataclass(frozen=True, eq=False)
class WeightRuler:
    """Weights tie where their doubles are equal, or where exact ones are within flux's tolerance.

    value: (n,) weights as doubles. above: (n,) whose list an entry is in by the tree. exact: weights · 2^POINT of some
    entries, rounded down.
    """

    value: FloatArray
    above: npt.NDArray[np.integer[Any]]
    exact: Callable[[IntArray], WholeNumbers]

    def settle(self, slots: Slots, order: IntArray, near: BoolArray) -> BoolArray:
        """Weights decide the order; then, among those that tie, late ones come last."""
        value = self.value[slots.entry[order]]
        misplaced = np.zeros(len(value), dtype=np.bool_)
        np.greater(value[1:], value[:-1], out=misplaced[1:])
        misplaced &= near
        if misplaced.any():
            _reorder(order, ~near, misplaced, -value)
            value = self.value[slots.entry[order]]
        gap = value[:-1] - value[1:]
        width = np.maximum(value[:-1], 1.0)  # descending, so the first of two is the larger
        width *= _TIE
        same = np.zeros(len(value), dtype=np.bool_)
        np.less(gap, width, out=same[1:])
        same[slots.lists.starts] = False
        width *= _OFF / _TIE
        is_close = gap < width
        is_close &= gap > 0
        close = is_close.nonzero()[0]
        if len(close):
            doubtful = 1 + close[self._is_doubtful(slots, order, close)]
            if len(doubtful):
                same = self._decide_exactly(slots, order, same, doubtful)
        if slots.is_late is not None:
            late = slots.is_late[order]
            misplaced = same.copy()
            misplaced[1:] &= late[:-1] & ~late[1:]
            if misplaced.any():
                _reorder(order, ~same, misplaced, late.astype(np.float64))
        return same

    def _is_doubtful(self, slots: Slots, order: IntArray, place: IntArray) -> BoolArray:
        """Whether exact weights, here and at the next place, may tie where doubles don't, or the other way round."""
        one, other = slots.entry[order[place]], slots.entry[order[place + 1]]
        value, gap = self.value[one], self.value[one] - self.value[other]
        width = np.maximum(value, 1.0) * _TIE
        off = np.where(self.above[one] == self.above[other], _OFF_BESIDE_SIBLINGS, _OFF) * value + _OFF * width
        is_first = np.zeros(slots.lists.size, dtype=np.bool_)
        is_first[slots.lists.starts] = True
        is_doubtful: BoolArray = (np.abs(gap - width) <= off) & ~is_first[place + 1]
        return is_doubtful

    def _decide_exactly(self, slots: Slots, order: IntArray, same: BoolArray, doubtful: IntArray) -> BoolArray:
        """Sort the runs of possible ties by exact weights, and mark the ties by these."""
        joined = same.copy()
        joined[doubtful] = True
        run = np.cumsum(~joined) - 1
        members = members_of_runs(run, doubtful)
        run, slot = run[members], order[members]
        weight = self.exact(slots.entry[slot])
        best_first = np.argsort(-weight, kind="stable")
        best_first = best_first[np.argsort(run[best_first], kind="stable")]
        order[members], weight = slot[best_first], weight[best_first]
        larger = np.maximum(weight[:-1], 1 << POINT)
        is_tied = ((weight[:-1] - weight[1:] + 1) << _TIE_BITS) < larger
        decided = same.copy()
        decided[members[1:]] = is_tied.astype(np.bool_) & (run[1:] == run[:-1])
        return decided


def _reorder(order: IntArray, begins: BoolArray, misplaced: BoolArray, key: FloatArray) -> None:
    """Sort the runs that have something misplaced by `key`, then slot; a run goes on until another begins."""
    run = np.cumsum(begins) - 1
    chosen = np.zeros(int(run[-1]) + 1, dtype=np.bool_)
    chosen[run[misplaced]] = True
    members = np.flatnonzero(chosen[run])
    order[members] = order[members][np.lexsort((order[members], key[members], run[members]))]
