"""Leaves that a resolution can't tell apart, and the least resolution that can."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apps.engine import codecs, sweep
from apps.engine.algorithms.base import PriorityResult
from apps.engine.algorithms.inputs import prepare
from apps.engine.arrays import FloatArray, IntArray
from apps.engine.operators import ON_TARGET_TOLERANCE

_MOST_BITS = 31
_SCANNED = 1 << 16
_CLOSEST_PAIRS = 256


@dataclass(frozen=True)
class Collisions:
    """What a resolution does to the ranked leaves of a tree.

    n_distinct: different vectors. n_sharing: leaves whose vector another leaf has, too; largest: most leaves on one.
    n_lost: leaves that share a vector with one whose unrounded priorities differ: distinctions that were lost.
    n_misplaced: leaves whose rank is another one than that of unrounded priorities. A lost distinction high up hands
    the decision to the level below, so leaves may be misplaced though all vectors are distinct.
    """

    resolution: int
    n_leaves: int
    n_distinct: int
    n_sharing: int
    largest: int
    n_lost: int
    n_misplaced: int


def collisions(result: PriorityResult, resolution: int) -> Collisions:
    """Count what priorities −1..1 of `result` lose at a resolution, 2..2^31. O(n log n).

    Source: operators paper, §2.2 and figure 5.
    """
    exact, rounded = _exact_ahead(result), _rounded_ahead(result, resolution)
    _, vector, size = np.unique(rounded, return_inverse=True, return_counts=True)
    n_lost = int(_is_lost(exact, rounded).sum())
    return Collisions(
        resolution=resolution,
        n_leaves=len(rounded),
        n_distinct=len(size),
        n_sharing=int((size[vector] > 1).sum()),
        largest=int(size.max(initial=0)),
        n_lost=n_lost,
        n_misplaced=int((exact != rounded).sum()),
    )


@dataclass(frozen=True)
class LeastResolution:
    """bits: the fewest with which 2^bits loses nothing, None beyond 31. resolution: the least that loses nothing.

    A resolution that isn't a power of two may do with less, and a larger one may lose again what it told apart:
    bucket edges move. All up to 65,536 are tried; beyond, `resolution` is 2^bits.
    """

    bits: int | None
    resolution: int | None


def least_resolution(result: PriorityResult) -> LeastResolution:
    """The least resolution at which no two leaves share a vector unless their unrounded priorities tie throughout."""
    exact = _exact_ahead(result)

    def is_enough(resolution: int) -> bool:
        return not _is_lost(exact, _rounded_ahead(result, resolution)).any()

    bits = next((bits for bits in range(1, _MOST_BITS + 1) if is_enough(2**bits)), None)
    if bits is None:
        return LeastResolution(None, None)
    candidates = np.arange(2, min(2**bits, _SCANNED + 1))
    for resolution in candidates[_tell_apart(_closest_siblings(result), candidates)].tolist():
        if is_enough(resolution):
            return LeastResolution(bits, resolution)
    return LeastResolution(bits, 2**bits)


def _exact_ahead(result: PriorityResult) -> IntArray:
    """Leaves ahead of each ranked leaf by unrounded priorities, level by level, ties within the tolerance."""
    prepared = prepare(result.tree)
    classify = sweep.classes_of_numbers(result.priority[prepared.entry], ON_TARGET_TOLERANCE)
    return sweep.count_ahead(prepared.contest, classify, prepared.ends)[prepared.seat[result.tree.is_ranked]]


def _rounded_ahead(result: PriorityResult, resolution: int) -> IntArray:
    prepared = prepare(result.tree)
    scalars = codecs.scalar(result.priority[prepared.entry], resolution)
    classify = sweep.classes_of_scalars(scalars, resolution)
    return sweep.count_ahead(prepared.contest, classify, prepared.ends)[prepared.seat[result.tree.is_ranked]]


def _is_lost(exact: IntArray, rounded: IntArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Leaves in a class of `rounded` that holds more than one class of `exact`."""
    _, vector = np.unique(rounded, return_inverse=True)
    least = np.full(int(vector.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    most = np.full_like(least, -1)
    np.minimum.at(least, vector, exact)
    np.maximum.at(most, vector, exact)
    is_mixed: np.ndarray[tuple[int], np.dtype[np.bool_]] = (least != most)[vector]
    return is_mixed


def _closest_siblings(result: PriorityResult) -> FloatArray:
    """Pairs of priorities of leaves in one group that stand nearest to each other without a tie, (pairs, 2).

    Siblings without children on both sides differ in this component alone, so it must tell them apart.
    """
    prepared = prepare(result.tree)
    contest = prepared.contest
    leaves = np.flatnonzero(contest.is_ranked & (prepared.ends == 1))
    priority = result.priority[prepared.entry]
    order = leaves[np.lexsort((priority[leaves], contest.parent[leaves]))]
    gap = np.diff(priority[order])
    is_pair = (np.diff(contest.parent[order]) == 0) & (gap > ON_TARGET_TOLERANCE)
    at = np.flatnonzero(is_pair)
    at = at[np.argsort(gap[at], kind="stable")[:_CLOSEST_PAIRS]]
    return np.stack([priority[order[at]], priority[order[at + 1]]], axis=1)


def _tell_apart(pairs: FloatArray, resolutions: IntArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """For each resolution: does it tell all pairs apart?"""
    is_apart = np.ones(len(resolutions), dtype=np.bool_)
    for low, high in pairs:
        is_apart &= codecs.components(low, resolutions) != codecs.components(high, resolutions)
    return is_apart
