"""Exact orders and ties of a walk: Slurm's levels as 80-bit long doubles, flux's weights in exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import CHUNK, BoolArray, FloatArray, IntArray, LongArray
from apps.engine.numerics import long_quotients
from apps.engine.numerics.long_quotients import LongNumbers
from apps.engine.numerics.walk_order import Slots
from apps.engine.operators import ON_TARGET_TOLERANCE

# --- Levels of Slurm's share tree -------------------------------------------------------------------------------------
# Relative error of two quotients of doubles, 2⁻⁵² each at most, with a margin.
_OFF = 2.0**-50


@dataclass(frozen=True, eq=False)
class LevelOrder:
    """Levels LF = S/U of Slurm's share tree, which tie where their 64-bit mantissas are equal.

    value: (n,) LF as doubles. shares: (n,) S. usage: (n,) the numerator of U; its denominator is `list_usage[owner]`,
    the usage of the entry in whose list this one is compared. is_sum: (n,) entries whose usage is a sum. is_exact:
    whether the doubles are the exact sums. long_sums: usage and list_usage as long doubles. Both callables are called
    only where the result may depend on them.
    """

    value: FloatArray
    shares: FloatArray
    usage: FloatArray
    list_usage: FloatArray
    owner: npt.NDArray[np.integer[Any]]
    is_sum: BoolArray
    is_exact: Callable[[], bool]
    long_sums: Callable[[], tuple[LongArray, LongArray]]

    @cached_property
    def _sums(self) -> tuple[FloatArray | LongArray, FloatArray | LongArray]:
        return (self.usage, self.list_usage) if self.is_exact() else self.long_sums()

    def resolve(self, slots: Slots, order: IntArray, near: BoolArray) -> BoolArray:
        """Divide near levels exactly where their shares or usage differ; sort by them and return the ties.

        Doubles decide first where they can, because long sums of a large tree are the most expensive step.
        """
        doubtful = self._doubtful(slots, order, np.flatnonzero(near))
        if len(doubtful) and not self.is_exact():
            apart = doubtful[self._are_apart(slots.entry[order[doubtful - 1]], slots.entry[order[doubtful]])]
            if len(apart):
                near, sorted_again = self._split(slots, order, near, apart)
                left = self._doubtful(slots, order, sorted_again[near[sorted_again]])
                doubtful = np.union1d(np.setdiff1d(doubtful, sorted_again, assume_unique=True), left)
        return near if len(doubtful) == 0 else self._divide_again(slots, order, near, doubtful)

    def _doubtful(self, slots: Slots, order: IntArray, near: IntArray) -> IntArray:
        """The positions in `near` whose tie with the position before is undecided."""
        if len(near) == 0:
            return near
        return near[~self._have_same_inputs(slots.entry[order[near - 1]], slots.entry[order[near]])]

    def _are_apart(self, one: IntArray, other: IntArray) -> BoolArray:
        """Where two levels of one list differ by more than the rounding of two quotients of doubles.

        Only for usage that isn't a sum.
        """
        first, second = self.value[one], self.value[other]
        with np.errstate(invalid="ignore"):
            apart: BoolArray = np.abs(first - second) > _OFF * np.maximum(first, second)
        return apart

    def _split(self, slots: Slots, order: IntArray, near: BoolArray, apart: IntArray) -> tuple[BoolArray, IntArray]:
        """Sort runs that have levels `apart` by their doubles; return the remaining near flags and sorted positions.

        Only for runs within one list and without sums: all their levels are divided by the same list usage, however
        that is rounded.
        """
        run = np.cumsum(~near) - 1
        members = members_of_runs(run, apart)
        entry, begins = slots.entry[order[members]], np.flatnonzero(np.diff(run[members], prepend=-1))
        owner = self.owner[entry]
        is_alike = (owner == np.repeat(owner[begins], np.diff(begins, append=len(members)))) & ~self.is_sum[entry]
        is_certain = np.logical_and.reduceat(is_alike, begins)
        members = members[np.repeat(is_certain, np.diff(begins, append=len(members)))]
        run, slot = run[members], order[members]
        slot = slot[np.lexsort((_tie_order(slots, slot), -self.value[slots.entry[slot]], run))]
        order[members], entry, near = slot, slots.entry[slot], near.copy()
        near[members[1:]] &= ~((run[1:] == run[:-1]) & self._are_apart(entry[:-1], entry[1:]))
        return near, members

    def _divide_again(self, slots: Slots, order: IntArray, near: BoolArray, doubtful: IntArray) -> BoolArray:
        run = np.cumsum(~near) - 1
        members = members_of_runs(run, doubtful)
        run, slot = run[members], order[members]
        level = self._divide(slots.entry[slot])
        late = np.zeros(len(slot), dtype=np.bool_) if slots.is_late is None else slots.is_late[slot]
        if _is_out_of_order(run, level, late, slot):
            best_first = np.lexsort((_tie_order(slots, slot), ~level.mantissa, (run << 24) - level.exponent))
            order[members] = slot[best_first]
            level = LongNumbers(level.exponent[best_first], level.mantissa[best_first])
        same = near.copy()
        same[members[1:]] = _without_last(level).equals(_without_first(level)) & (run[1:] == run[:-1])
        return same

    def _have_same_inputs(self, one: IntArray, other: IntArray) -> BoolArray:
        s, t = self.shares[one], self.shares[other]
        u, v = self.usage[one], self.usage[other]
        same_part = u == v
        is_used = same_part & (u > 0)
        if is_used.any():
            if self.is_exact():
                same_part &= ~is_used | (self.list_usage[self.owner[one]] == self.list_usage[self.owner[other]])
            else:
                same_part[is_used] = self._have_same_usage_ratio(one[is_used], other[is_used])
        same: BoolArray = ((s == t) & same_part) | ((s == 0) & (t == 0)) | ((s > 0) & (t > 0) & (u == 0) & (v == 0))
        return same

    def _have_same_usage_ratio(self, one: IntArray, other: IntArray) -> BoolArray:
        """Where U is the same, for entries of equal usage.

        Where usage is a sum that doubles don't hold exactly, equal doubles may be different long doubles.
        """
        first, second = self.owner[one], self.owner[other]
        same: BoolArray = first == second
        if same.all() and not (self.is_sum[one] | self.is_sum[other]).any():
            return same
        usage, list_usage = self._sums
        is_equal: BoolArray = (same | (list_usage[first] == list_usage[second])) & (usage[one] == usage[other])
        return is_equal

    def _divide(self, entries: IntArray) -> LongNumbers:
        usage, list_usage = self._sums
        return long_quotients.level_fairshare(self.shares[entries], usage[entries], list_usage[self.owner[entries]])


def members_of_runs(run: IntArray, some: IntArray) -> IntArray:
    """All positions of the runs that have at least one of the positions `some`."""
    is_chosen = np.zeros(int(run[-1]) + 1, dtype=np.bool_)
    is_chosen[run[some]] = True
    return np.flatnonzero(is_chosen[run])


def _tie_order(slots: Slots, slot: IntArray) -> IntArray:
    """Sort key of slots of equal level: late ones last, then list order."""
    return slot if slots.is_late is None else (slots.is_late[slot].astype(np.int64) << 40) + slot


def _without_first(numbers: LongNumbers) -> LongNumbers:
    return LongNumbers(numbers.exponent[1:], numbers.mantissa[1:])


def _without_last(numbers: LongNumbers) -> LongNumbers:
    return LongNumbers(numbers.exponent[:-1], numbers.mantissa[:-1])


def _is_out_of_order(run: IntArray, level: LongNumbers, late: BoolArray, slot: IntArray) -> bool:
    """Whether any element belongs before its neighbour in the same run: it is higher, or equal and earlier."""
    before, after = _without_last(level), _without_first(level)
    is_earlier = (late[1:] < late[:-1]) | ((late[1:] == late[:-1]) & (slot[1:] < slot[:-1]))
    misplaced = after.exceeds(before) | (before.equals(after) & is_earlier)
    return bool((misplaced & (run[1:] == run[:-1])).any())


def balance(shares: FloatArray, usage: FloatArray) -> FloatArray:
    """(S − U)/(S + U), (m,) −1..1: 0 where they are equal within 1e-12, −1 where S is 0, and 0 for the root."""
    out = np.empty(len(shares))
    with np.errstate(invalid="ignore"):
        for begin in range(0, len(shares), CHUNK):
            here = slice(begin, begin + CHUNK)
            s, u = shares[here], usage[here]
            gap = (s - u) / (s + u)
            gap[np.abs(gap) <= ON_TARGET_TOLERANCE / 2] = 0.0
            gap[s == 0] = -1.0
            out[here] = gap
    out[0] = 0.0
    return out


# --- Weights of flux --------------------------------------------------------------------------------------------------
WholeNumbers = npt.NDArray[np.object_]

_MANTISSA_BITS = 53


def whole_numbers(values: FloatArray) -> WholeNumbers:
    """Doubles ≥ 0 as exact integers in one common unit, a power of two."""
    mantissa, exponent = np.frexp(values)
    is_positive = mantissa > 0
    shift = np.where(is_positive, exponent - np.min(exponent, where=is_positive, initial=2**15), 0)
    whole = np.ldexp(mantissa, _MANTISSA_BITS).astype(np.int64).astype(np.object_)
    found: WholeNumbers = whole << shift.astype(np.object_)
    return found


# Neighbours a ≥ b in sorted order tie where a − b < 2⁻⁵² · max(a, 1). Source: flux-accounting.
_TIE_BITS = 52
_TIE = 2.0**-_TIE_BITS
# The margin covers the rounding of long doubles with 64 bits; with fewer bits nothing ties for sure.
_TIE_WITH_MARGIN = _TIE * (1 - 2.0**-6) if np.finfo(np.longdouble).nmant >= 63 else -1.0

# Largest relative error of a weight as a double, with a margin. Compared with siblings: one quotient, times a factor
# that all siblings share. Compared with others: their factors come from sums of a million doubles, over 64 levels.
_OFF_BESIDE_SIBLINGS = 2.0**-50
_OFF_BESIDE_OTHERS = 2.0**-38

# Doubles between these have all bits.
_LEAST, _MOST = float(np.finfo(np.float64).tiny), float(np.finfo(np.float64).max)

# Exact weights keep this many bits after the point: two weights made of doubles are equal or differ well before it.
POINT = 1024


@dataclass(frozen=True, eq=False)
class WeightOrder:
    """Weights of flux, which tie where their exact values are within flux's tolerance.

    value: (n,) weights as doubles. idle: the weight of every idle entry. parent, child_count, shares: (n,) of the tree.
    usage: (n,) total of the subtree. long: returns weights of some entries with 62 bits, NaN where it can't. exact:
    returns weight · 2^POINT of some entries, rounded down.
    """

    value: FloatArray
    idle: float
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
        width *= _TIE
        same = np.zeros(len(value), dtype=np.bool_)
        np.less(gap, width, out=same[1:])
        same[slots.lists.starts] = False
        width *= _OFF_BESIDE_OTHERS / _TIE
        is_close = np.zeros(len(value), dtype=np.bool_)
        np.less(gap, width, out=is_close[1:])
        is_close[1:] &= (gap > 0) | ((value[:-1] > 0) & (value[:-1] != self.idle))
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

    def _is_doubtful(self, one: IntArray, other: IntArray, gap: FloatArray) -> BoolArray:
        """Whether exact weights of these pairs may tie where doubles don't, or the reverse.

        Childless siblings of one ratio shares / usage tie for sure: their quotients are less than a unit in the last
        place apart, which is at most 2⁻⁵² of them.
        """
        are_siblings = self.parent[one] == self.parent[other]
        is_doubtful: BoolArray = ~are_siblings | (gap > 0)
        if not is_doubtful.all():
            is_doubtful |= self._ratio[one] != self._ratio[other]
        left = is_doubtful.nonzero()[0]
        value, gap = self.value[one[left]], gap[left]
        width = np.maximum(value, 1.0) * _TIE
        off = np.where(are_siblings[left], _OFF_BESIDE_SIBLINGS, _OFF_BESIDE_OTHERS) * value
        is_doubtful[left] = np.abs(gap - width) <= off + _OFF_BESIDE_OTHERS * width
        return is_doubtful

    def _tie_for_sure(self, one: IntArray, other: IntArray) -> BoolArray:
        """Where long weights tie with a margin. If all neighbours of a run do, they do so in exact order, too."""
        first, second = self.long(one), self.long(other)
        is_tied: BoolArray = np.abs(first - second) < np.maximum(np.maximum(first, second), 1) * _TIE_WITH_MARGIN
        return is_tied

    @cached_property
    def _ratio(self) -> FloatArray:
        """(n,) shares / usage; NaN, which equals nothing, for entries with children and where bits are lost."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = self.shares / self.usage
        ratio[(ratio < _LEAST) | (ratio > _MOST) | (self.child_count > 0)] = np.nan
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
