"""Priority vectors and their encoding as single numbers; nothing else in the engine rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import CHUNK, FloatArray, IntArray
from apps.engine.tree import FairshareTree

MIN_RESOLUTION = 2
MAX_RESOLUTION = 2**31
DEFAULT_RESOLUTION = 10000
GRID_BASE = 200
# A value this close below a whole number (as a part of the resolution) is rounded up to it. Rounding errors of target,
# actual and operator are far smaller, so priorities that are equal on paper have equal components.
SNAP = 2.0**-47
# The same for deviations in points, which are differences of two rounded parts of 100.
SNAP_POINTS = 200.0 * SNAP
# Steps of a deviation in a key, counted from −100 points: a tenth of the tie tolerance, so that two classes never share
# a step.
KEY_STEPS = 10**10
_KEY_WIDTH = len(str(200 * KEY_STEPS))


def balance(resolution: int) -> int:
    """The component of an entry on target, r//2, which also pads a missing level."""
    return resolution // 2


def lineage(tree: FairshareTree, entry: int) -> IntArray:
    """Entries from below the root down to `entry`; empty for the root."""
    path = []
    while entry > 0:
        path.append(entry)
        entry = int(tree.parent[entry])
    return np.array(path[::-1], dtype=np.int64)


def pad(vector: Sequence[int], depth: int, resolution: int) -> list[int]:
    """The vector with missing levels filled with r//2; used for comparison only."""
    return [*vector, *[balance(resolution)] * (depth - len(vector))]


def compare(vector: Sequence[int], other: Sequence[int], resolution: int) -> int:
    """1 if `vector` is ahead, −1 if behind, 0 if they tie: lexicographic, padded, higher wins."""
    depth = max(len(vector), len(other))
    first, second = pad(vector, depth, resolution), pad(other, depth, resolution)
    return (first > second) - (first < second)


def scalar(priority: FloatArray, resolution: int) -> IntArray:
    """`min(r − 1, floor((p + 1)/2 · r))`, 0..r − 1; priority in −1..1. Source: operators paper, figure 4.

    A value within r · 2⁻⁴⁷ below a whole number is rounded up to it, but a negative priority never reaches r/2.
    """
    out = np.empty(len(priority), dtype=np.int64)
    for begin in range(0, len(priority), CHUNK):
        out[begin : begin + CHUNK] = components(priority[begin : begin + CHUNK], resolution)
    return out


def components(priority: FloatArray | float, resolution: int | IntArray) -> npt.NDArray[Any]:
    """`scalar` as float64, for priorities and resolutions that broadcast against each other."""
    scaled: FloatArray = np.add(priority, 1.0) * (resolution / 2.0)  # multiplying by a power of two is exact
    scaled += resolution * SNAP
    np.floor(scaled, out=scaled)
    is_balance = np.equal(scaled, resolution / 2.0)
    if is_balance.any():
        scaled -= is_balance & np.less(priority, 0.0)
    return np.minimum(scaled, resolution - 1.0, out=scaled)


def component_of(priority: float, resolution: float) -> float:
    """`scalar` of one number, as compiled by kernels."""
    component = float(math.floor((priority + 1.0) * (resolution / 2.0) + resolution * SNAP))
    if priority < 0.0 and component * 2.0 == resolution:
        component -= 1.0
    return min(component, resolution - 1.0)


def effective_priority(scalars: IntArray, resolution: int) -> FloatArray:
    """`scalar/r · 2 − 1`: the lowest priority with that scalar (eq. 17). Don't convert it to a scalar again."""
    effective: FloatArray = np.asarray(scalars) / resolution * 2.0 - 1.0
    return effective


def key_string(vector: Sequence[int], depth: int, resolution: int) -> str:
    """Components in fixed width, padded to `depth` with r//2: the strings sort as the vectors do."""
    width = len(str(resolution - 1))
    padded = [*vector, *[resolution // 2] * (depth - len(vector))]
    return "".join(f"{component:0{width}d}" for component in padded)


def key_strings(vectors: IntArray, depth_of: IntArray, depth: int, resolution: int) -> list[str]:
    """`key_string` of each row of `vectors`, whose length is in `depth_of`."""
    width = len(str(resolution - 1))
    inside = np.arange(vectors.shape[1]) < depth_of[:, np.newaxis]
    padded = np.full((len(vectors), max(depth, vectors.shape[1])), resolution // 2)
    padded[:, : vectors.shape[1]] = np.where(inside, vectors, resolution // 2)
    if not depth or padded.shape[1] > depth or padded.min(initial=0) < 0 or padded.max(initial=0) >= 10**width:
        rows = zip(vectors.tolist(), depth_of.tolist(), strict=True)
        return [key_string(row[:length], depth, resolution) for row, length in rows]
    digits = padded[:, :, np.newaxis] // 10 ** np.arange(width - 1, -1, -1) % 10 + ord("0")
    text = digits.astype(np.uint8).tobytes().decode("ascii")
    return [text[at : at + depth * width] for at in range(0, len(text), depth * width)]


def grid_value(deviations: Sequence[float], depth: int) -> int:
    """`Σ (d_i + 100) · 200^(depth − i)`, d rounded half-even to whole points, unclamped; missing levels are 0.

    A value that differs from a half only by rounding errors counts as a half. A deviation of +100 is digit 200 and
    carries, so values may tie where vectors don't. Source: Elmroth, Gardfjäll, section 4.
    """
    value = 0
    for deviation in _padded(deviations, depth):
        value = value * GRID_BASE + _whole_points(deviation) + 100
    return value


def grid_key(deviations: Sequence[float], depth: int) -> str:
    """Deviations in steps of 1e-10 points above −100, in fixed width: the strings sort as the deviations do."""
    digits = (round((deviation + 100.0) * KEY_STEPS) for deviation in _padded(deviations, depth))
    return "".join(f"{digit:0{_KEY_WIDTH}d}" for digit in digits)


def _padded(deviations: Sequence[float], depth: int) -> list[float]:
    if len(deviations) > depth:
        raise ValueError(f"{len(deviations)} deviations don't fit a depth of {depth}")
    return [*deviations, *[0.0] * (depth - len(deviations))]


def _whole_points(deviation: float) -> int:
    halves = round(2.0 * deviation)
    is_half = halves % 2 == 1 and abs(2.0 * deviation - halves) <= 2.0 * SNAP_POINTS
    return round(halves / 2.0 if is_half else deviation)


def factor_from_rank(rank: IntArray, n_ranked: int) -> FloatArray:
    """`1 − (rank − 1)/N`: 1 for the best, never 0 for a leaf; a group behind all leaves has 1/N like the last leaf."""
    return factor_from_ahead(rank - 1, n_ranked)


def factor_from_ahead(ahead: IntArray, n_ranked: int) -> FloatArray:
    """`factor_from_rank` for the number of leaves strictly ahead, rank − 1."""
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
