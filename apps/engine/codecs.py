"""Vectors and deviations as numbers: the only place that rounds."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from apps.engine.arrays import CHUNK, FloatArray, IntArray
from apps.engine.tree import FairshareTree

MIN_RESOLUTION = 2
MAX_RESOLUTION = 2**31
DEFAULT_RESOLUTION = 10000
GRID_BASE = 200


def scalar(priority: FloatArray, resolution: int) -> IntArray:
    """`min(r − 1, floor((p + 1)/2 · r))`, 0..r − 1; priority in −1..1. Source: operators paper, figure 4."""
    out = np.empty(len(priority), dtype=np.int64)
    for begin in range(0, len(priority), CHUNK):
        scaled = priority[begin : begin + CHUNK] + 1.0
        scaled *= resolution / 2.0  # a power of two moves no bit: the same as halving first
        out[begin : begin + CHUNK] = np.minimum(np.floor(scaled, out=scaled), resolution - 1, out=scaled)
    return out


def effective_priority(scalars: IntArray, resolution: int) -> FloatArray:
    """`scalar/r · 2 − 1`: the lowest priority with that scalar (eq. 17). Never make a scalar of it again."""
    effective: FloatArray = np.asarray(scalars) / resolution * 2.0 - 1.0
    return effective


def key_string(vector: Sequence[int], depth: int, resolution: int) -> str:
    """Components in fixed width, padded to `depth` with r//2: strings sort as the vectors do."""
    width = len(str(resolution - 1))
    padded = [*vector, *[resolution // 2] * (depth - len(vector))]
    return "".join(f"{component:0{width}d}" for component in padded)


def grid_value(deviations: Sequence[float], depth: int) -> int:
    """`Σ (d_i + 100) · 200^(depth − i)`, d rounded half-even to whole points, unclamped; missing levels are 0.

    A deviation of +100 is digit 200 and carries, so values may tie where vectors don't. Source: Elmroth, Gardfjäll,
    section 4.
    """
    if len(deviations) > depth:
        raise ValueError(f"{len(deviations)} deviations don't fit a depth of {depth}")
    value = 0
    for level in range(depth):
        points = round(deviations[level]) if level < len(deviations) else 0
        value = value * GRID_BASE + points + 100
    return value


def factor_from_rank(rank: IntArray, n_ranked: int) -> FloatArray:
    """`1 − (rank − 1)/N`: best 1, a leaf never 0; a group behind everybody gets 1/N, as the last leaf does."""
    return factor_from_ahead(rank - 1, n_ranked)


def factor_from_ahead(ahead: IntArray, n_ranked: int) -> FloatArray:
    """The same, given how many leaves are strictly ahead (rank − 1)."""
    if n_ranked == 0:
        return np.ones(len(ahead))
    factor: FloatArray = ahead / -n_ranked
    factor += 1.0
    factor[ahead >= n_ranked] = 1.0 / n_ranked
    return factor


def factor_from_key(tree: FairshareTree, scalars: IntArray, depth: int, resolution: int) -> FloatArray:
    """`Σ vector_i / r^i` over the vector padded with r//2 to `depth`, shape (n,) of the competing tree."""
    place_value = [float(Fraction(1, resolution**level)) for level in range(tree.depth + depth + 1)]
    tail = [resolution // 2 * sum(place_value[level + 1 : depth + 1][::-1]) for level in range(tree.depth + 1)]
    prefix = np.zeros(tree.n_entries)
    factor = np.empty(tree.n_entries)
    factor[0] = tail[0]
    for number, level in enumerate(tree.levels, start=1):
        here = slice(level.lo, level.hi)
        prefix[here] = np.repeat(prefix[level.parents], level.counts) + scalars[here] * place_value[number]
        factor[here] = prefix[here] + tail[number]
    return factor
