"""Sums, quotients and products over a tree, vectorised by level."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import FloatArray, LongArray
from apps.engine.tree import FairshareTree

# Sums below this stay finite doubles, including intermediate rounding.
_LARGE = 2.0**1022


def shrink_huge(values: FloatArray) -> tuple[FloatArray, float]:
    """Scale by a power of two if sums of `values` could overflow; return (values, factor that restores them)."""
    if values.size == 0 or float(values.max()) < _LARGE / values.size:
        return values, 1.0
    shrink = 2.0 ** -(values.size.bit_length() + 2)  # no more than necessary: the smallest value must not become 0
    return values * shrink, 1.0 / shrink


def sibling_sum(tree: FairshareTree, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Sum over the children of each entry, shape (n,): `out[g] = Σ values[c]`; 0 for entries without children."""
    sums = np.zeros(tree.n_entries, dtype=values.dtype)
    for level in tree.levels:
        sums[level.parents] = np.add.reduceat(values[level.lo : level.hi], level.starts)
    return sums


def sum_up(tree: FairshareTree, own: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return (totals, child sums), each (n,): `total = own + Σ totals of the children`, in the unit of `own`."""
    totals = own.copy()
    sums = np.zeros(tree.n_entries, dtype=own.dtype)
    for level in reversed(tree.levels):
        sums[level.parents] = np.add.reduceat(totals[level.lo : level.hi], level.starts)
        totals[level.parents] += sums[level.parents]
    return totals, sums


def sum_up_long(tree: FairshareTree, own: FloatArray) -> LongArray:
    """The totals of `sum_up` as long doubles: exact sums, rounded once, whatever the order of summation.

    Numbers above 2^-52 of the largest total are summed exactly in doubles, those below in long doubles.
    """
    coarse = 1.5 * 2.0 ** math.frexp(float(own.sum()))[1]
    upper = (own + coarse) - coarse
    totals: LongArray = sum_up(tree, upper)[0].astype(np.longdouble)
    totals += sum_up(tree, (own - upper).astype(np.longdouble))[0]
    return totals


def divide_by_group(tree: FairshareTree, values: FloatArray, sums: FloatArray) -> FloatArray:
    """`values[c] / sums[parent of c]`, 0 where the group's sum is 0; the root is 1."""
    out = np.empty(tree.n_entries)
    out[0] = 1.0
    for level in tree.levels:
        divisor = sums[level.parents]
        empty = divisor == 0
        if empty.any():
            divisor = np.where(empty, np.inf, divisor)
        here, there = values[level.lo : level.hi], out[level.lo : level.hi]
        for groups, slots in level.chunks():
            np.divide(here[slots], np.repeat(divisor[groups], level.counts[groups]), out=there[slots])
    return out


def divide_parts(
    tree: FairshareTree,
    dividend: npt.NDArray[Any],
    divisor: npt.NDArray[Any],
    dividend_sums: npt.NDArray[Any],
    divisor_sums: npt.NDArray[Any],
) -> npt.NDArray[Any]:
    """`(dividend[c] / divisor[c]) · (divisor_sums[p] / dividend_sums[p])`, p the parent of c; the root is 1."""
    out = np.empty_like(dividend)
    out[0] = 1
    for level in tree.levels:
        here = slice(level.lo, level.hi)
        above, below, there = dividend[here], divisor[here], out[here]
        factor = divisor_sums[level.parents] / dividend_sums[level.parents]
        for groups, slots in level.chunks():
            np.divide(above[slots], below[slots], out=there[slots])
            there[slots] *= np.repeat(factor[groups], level.counts[groups])
    return out


def normalise_siblings(tree: FairshareTree, values: FloatArray) -> FloatArray:
    """target = shares / Σ shares of the siblings, shape (n,): the sum in a group is 1, or all are 0. `values` ≥ 0."""
    if values.size and float(values.max()) >= _LARGE / values.size:
        values = _shrink_groups(tree, values)
    return divide_by_group(tree, values, sibling_sum(tree, values))


def _shrink_groups(tree: FairshareTree, values: FloatArray) -> FloatArray:
    """Scale each group by the power of two that brings its largest value to ½..1.

    One scale for all groups would lose digits of groups with small values.
    """
    shrunk = values.copy()
    for level in tree.levels:
        here = slice(level.lo, level.hi)
        exponent = np.frexp(np.maximum.reduceat(values[here], level.starts))[1]
        shrunk[here] = np.ldexp(values[here], -np.repeat(exponent, level.counts))
    return shrunk


def product_down(tree: FairshareTree, values: FloatArray) -> FloatArray:
    """target_global = product of the values from below the root down to the entry, shape (n,); 1 for the root."""
    out = np.ones(tree.n_entries)
    for level in tree.levels:
        here = slice(level.lo, level.hi)
        out[here] = np.repeat(out[level.parents], level.counts) * values[here]
    return out
