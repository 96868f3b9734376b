"""Order and ties of Slurm's levels, as 80-bit long doubles."""

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

    def _are_apart(self, entries: IntArray, other: IntArray) -> BoolArray:
        """Where two levels of one list differ by more than the rounding of two quotients of doubles.

        Only for usage that isn't a sum.
        """
        first, second = self.value[entries], self.value[other]
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

    def _have_same_inputs(self, entries: IntArray, other: IntArray) -> BoolArray:
        s, t = self.shares[entries], self.shares[other]
        u, v = self.usage[entries], self.usage[other]
        same_part = u == v
        is_used = same_part & (u > 0)
        if is_used.any():
            if self.is_exact():
                same_part &= ~is_used | (self.list_usage[self.owner[entries]] == self.list_usage[self.owner[other]])
            else:
                same_part[is_used] = self._have_same_usage_ratio(entries[is_used], other[is_used])
        same: BoolArray = ((s == t) & same_part) | ((s == 0) & (t == 0)) | ((s > 0) & (t > 0) & (u == 0) & (v == 0))
        return same

    def _have_same_usage_ratio(self, entries: IntArray, other: IntArray) -> BoolArray:
        """Where U is the same, for entries of equal usage.

        Where usage is a sum that doubles don't hold exactly, equal doubles may be different long doubles.
        """
        first, second = self.owner[entries], self.owner[other]
        same: BoolArray = first == second
        if same.all() and not (self.is_sum[entries] | self.is_sum[other]).any():
            return same
        usage, list_usage = self._sums
        is_equal: BoolArray = (same | (list_usage[first] == list_usage[second])) & (usage[entries] == usage[other])
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
