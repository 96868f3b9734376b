"""Order and ties of flux's weights, in exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import BoolArray, FloatArray, IntArray, LongArray
from apps.engine.numerics.ties import members_of_runs
from apps.engine.numerics.walk_order import Slots

WholeNumbers = npt.NDArray[np.object_]
_MANTISSA_BITS = 53
IDLE_WEIGHT = 2.0**64  # of an entry with shares and no usage: the highest

# Neighbours a ≥ b in sorted order tie where a − b < 2⁻⁵² · max(a, 1). Source: flux-accounting.
_TIE_BITS = 52
TIE = 2.0**-_TIE_BITS
# The margin covers the rounding of long doubles with 64 bits; with fewer bits nothing ties for sure.
_TIE_WITH_MARGIN = TIE * (1 - 2.0**-6) if np.finfo(np.longdouble).nmant >= 63 else -1.0
# Largest relative error of a weight as a double, with a margin. Compared with siblings: one quotient, times a factor
# that all siblings share. Compared with others: their factors come from sums of a million doubles, over 64 levels.
OFF_BESIDE_SIBLINGS = 2.0**-50
OFF_BESIDE_OTHERS = 2.0**-38
# Doubles between these have all bits.
LEAST_RATIO, MOST_RATIO = float(np.finfo(np.float64).tiny), float(np.finfo(np.float64).max)
# Exact weights keep this many bits after the point: two weights made of doubles are equal or differ well before it.
POINT = 1024


class Walked(NamedTuple):
    """What the walk of a tree writes, (n,). actual: part of the usage of siblings."""

    weight: FloatArray
    actual: FloatArray
    priority: FloatArray
    rank: IntArray
    factor: FloatArray


def whole_numbers(values: FloatArray) -> WholeNumbers:
    """Doubles ≥ 0 as exact integers in one common unit, a power of two."""
    mantissa, exponent = np.frexp(values)
    is_positive = mantissa > 0
    shift = np.where(is_positive, exponent - np.min(exponent, where=is_positive, initial=2**15), 0)
    whole = np.ldexp(mantissa, _MANTISSA_BITS).astype(np.int64).astype(np.object_)
    numbers: WholeNumbers = whole << shift.astype(np.object_)
    return numbers


@dataclass(frozen=True, eq=False)
class WeightOrder:
    """Weights of flux, which tie where their exact values are within flux's tolerance.

    value: (n,) weights as doubles. parent, child_count, shares: (n,) of the tree.
    usage: (n,) total of the subtree. long: returns weights of some entries with 62 bits, NaN where it can't. exact:
    returns weight · 2^POINT of some entries, rounded down.
    """

    value: FloatArray
    parent: npt.NDArray[np.integer[Any]]
    child_count: npt.NDArray[np.integer[Any]]
    shares: FloatArray
    usage: FloatArray
    long: Callable[[IntArray], LongArray]
    exact: Callable[[IntArray], WholeNumbers]

    def resolve(self, slots: Slots, order: IntArray, near: BoolArray) -> BoolArray:
        """Sort by weight, late entries last among those that tie; return the ties."""
        entry = slots.entry[order]
        value = self.value[entry]
        misplaced = np.zeros(len(value), dtype=np.bool_)
        np.greater(value[1:], value[:-1], out=misplaced[1:])
        misplaced &= near
        if misplaced.any():
            moved = _reorder(order, ~near, misplaced, -value)
            entry[moved] = slots.entry[order[moved]]
            value[moved] = self.value[entry[moved]]
        same = self._decide(slots, order, entry, value)
        if slots.is_late is not None:
            late = slots.is_late[order]
            misplaced = same.copy()
            misplaced[1:] &= late[:-1] & ~late[1:]
            if misplaced.any():
                _reorder(order, ~same, misplaced, late.astype(np.float64))
        return same

    def _decide(self, slots: Slots, order: IntArray, entry: IntArray, value: FloatArray) -> BoolArray:
        """The ties by doubles or long doubles where these are certain, else by exact weights."""
        gap = value[:-1] - value[1:]
        width = np.maximum(value[:-1], 1.0)  # descending, so the first of two is the larger
        width *= TIE
        same = np.zeros(len(value), dtype=np.bool_)
        np.less(gap, width, out=same[1:])
        same[slots.lists.starts] = False
        width *= OFF_BESIDE_OTHERS / TIE
        is_close = np.zeros(len(value), dtype=np.bool_)
        np.less(gap, width, out=is_close[1:])
        is_close[1:] &= (gap > 0) | ((value[:-1] > 0) & (value[:-1] != IDLE_WEIGHT))
        is_close[slots.lists.starts] = False
        close = is_close.nonzero()[0]
        if len(close):
            doubtful = close[self._is_doubtful(entry[close - 1], entry[close], gap[close - 1])]
            is_tied = self._tie_for_sure(entry[doubtful - 1], entry[doubtful])
            same[doubtful[is_tied]] = True
            doubtful = doubtful[~is_tied]
            if len(doubtful):
                same = self._decide_exactly(slots, order, same, doubtful)
        return same

    def _is_doubtful(self, entries: IntArray, other: IntArray, gap: FloatArray) -> BoolArray:
        """Whether exact weights of these pairs may tie where doubles don't, or the reverse.

        Childless siblings of one ratio shares / usage tie for sure: their quotients are less than a unit in the last
        place apart, which is at most 2⁻⁵² of them.
        """
        are_siblings = self.parent[entries] == self.parent[other]
        is_doubtful: BoolArray = ~are_siblings | (gap > 0)
        if not is_doubtful.all():
            is_doubtful |= self._ratio[entries] != self._ratio[other]
        left = is_doubtful.nonzero()[0]
        value, gap = self.value[entries[left]], gap[left]
        width = np.maximum(value, 1.0) * TIE
        off = np.where(are_siblings[left], OFF_BESIDE_SIBLINGS, OFF_BESIDE_OTHERS) * value
        is_doubtful[left] = np.abs(gap - width) <= off + OFF_BESIDE_OTHERS * width
        return is_doubtful

    def _tie_for_sure(self, entries: IntArray, other: IntArray) -> BoolArray:
        """Where long weights tie with a margin. If all neighbours of a run do, they do so in exact order, too."""
        first, second = self.long(entries), self.long(other)
        is_tied: BoolArray = np.abs(first - second) < np.maximum(np.maximum(first, second), 1) * _TIE_WITH_MARGIN
        return is_tied

    @cached_property
    def _ratio(self) -> FloatArray:
        """(n,) shares / usage; NaN, which equals nothing, for entries with children and where bits are lost."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = self.shares / self.usage
        ratio[(ratio < LEAST_RATIO) | (ratio > MOST_RATIO) | (self.child_count > 0)] = np.nan
        return ratio

    def _decide_exactly(self, slots: Slots, order: IntArray, same: BoolArray, doubtful: IntArray) -> BoolArray:
        """Sort runs of possible ties by exact weights; return the ties by these weights.

        Adjacent siblings of equal shares and usage have one weight, which is computed once.
        """
        joined = same.copy()
        joined[doubtful] = True
        run = np.cumsum(~joined) - 1
        members = members_of_runs(run, doubtful)
        run, slot = run[members], order[members]
        begins = np.flatnonzero(self._is_first_of_its_weight(run, slots.entry[slot]))
        counts = np.diff(begins, append=len(members))
        weight, run = self.exact(slots.entry[slot[begins]]), run[begins]
        best_first = np.argsort(-weight, kind="stable")
        best_first = best_first[np.argsort(run[best_first], kind="stable")]
        weight, counts, moved_from = weight[best_first], counts[best_first], begins[best_first]
        begins = np.cumsum(counts) - counts
        order[members] = slot[np.arange(len(members)) + np.repeat(moved_from - begins, counts)]
        larger = np.maximum(weight[:-1], 1 << POINT)
        is_tied = ((weight[:-1] - weight[1:] + 1) << _TIE_BITS) < larger
        decided = same.copy()
        decided[members] = True
        decided[members[begins[0]]] = False
        decided[members[begins[1:]]] = is_tied.astype(np.bool_) & (run[1:] == run[:-1])
        return decided

    def _is_first_of_its_weight(self, run: IntArray, entry: IntArray) -> BoolArray:
        """Where an entry isn't in the run of the entry before, or not surely of its weight."""
        is_first = np.ones(len(entry), dtype=np.bool_)
        np.not_equal(run[1:], run[:-1], out=is_first[1:])
        has_children = self.child_count[entry] > 0
        is_first[1:] |= has_children[1:] | has_children[:-1]
        for column in (self.parent, self.shares, self.usage):
            values = column[entry]
            is_first[1:] |= values[1:] != values[:-1]
        return is_first


def _reorder(order: IntArray, begins: BoolArray, misplaced: BoolArray, key: FloatArray) -> IntArray:
    """Sort the runs that have a misplaced element by `key`, then slot; return the positions in these runs.

    `begins` marks the first element of each run.
    """
    run = np.cumsum(begins) - 1
    members = members_of_runs(run, misplaced.nonzero()[0])
    order[members] = order[members][np.lexsort((order[members], key[members], run[members]))]
    return members
