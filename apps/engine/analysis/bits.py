"""How many bits the vectors of a whole tree need, so that a job of a given size shows in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from apps.engine import codecs, sweep
from apps.engine.algorithms.base import PriorityResult
from apps.engine.algorithms.inputs import prepare
from apps.engine.analysis.job_size import FEWEST_BITS, MOST_BITS, PLAIN_CORRECTED, Reading, job_fraction
from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.operators import Operator
from apps.engine.tree import FairshareTree

_FINEST_BITS = 31  # codecs.MAX_RESOLUTION


@dataclass(frozen=True)
class LevelBits:
    """One level. bits: the most that any of its entries needs. n_unseen: entries for which no number of bits is enough.

    An entry that has no shares, or that alone used everything, stays as it is whatever it runs.
    """

    level: int
    n_entries: int
    bits: int
    n_unseen: int


@dataclass(frozen=True)
class TreeBits:
    """levels: one by one, from below the root. A vector has one component for each, `depth` of them."""

    levels: tuple[LevelBits, ...]

    @property
    def depth(self) -> int:
        return len(self.levels)

    @property
    def bits(self) -> int:
        """Bits of one component, if all levels have one resolution 2^bits."""
        return max((level.bits for level in self.levels), default=0)

    @property
    def total_bits(self) -> int:
        """A vector at one resolution: depth · bits."""
        return self.depth * self.bits

    @property
    def fewest_total_bits(self) -> int:
        """A vector whose levels have each their own resolution."""
        return sum(level.bits for level in self.levels)


def vector_bits(depth: int, resolution: int) -> int:
    """Bits of a vector of `depth` components at a resolution: depth · ⌈log₂ r⌉."""
    return depth * (resolution - 1).bit_length()


def bits_now(
    result: PriorityResult, operator: Operator, job_usage: float, *, entries: BoolArray | None = None
) -> TreeBits:
    """Bits at which one job of this usage, by whichever leaf, shows on every level, given the usage of `result`.

    Exact: for each entry with ranked leaves below, F(t, s) and F(t, (u + job)/(g + job)) are made components at 2^b;
    the fewest b at which they differ counts. Powers of two nest, so more bits show the job, too. job_usage: > 0, in the
    unit of the result's usage; u and g are the entry's and its group's. entries: (n,) those of the tree that count.
    """
    prepared = prepare(result.tree)
    contest = prepared.contest
    counts = _has_leaves(contest, prepared.ends)
    if entries is not None:
        counts &= entries[prepared.entry]
    usage = result.usage[prepared.entry]
    group = sweep.sibling_sum(contest, usage)[np.maximum(contest.parent, 0)]
    after = (usage + job_usage) / (group + job_usage)
    now, then = operator(prepared.target, result.actual[prepared.entry]), operator(prepared.target, after)
    needed = np.zeros(contest.n_entries, dtype=np.int64)
    for bits in range(_FINEST_BITS, 0, -1):
        needed[codecs.scalar(now, 2**bits) != codecs.scalar(then, 2**bits)] = bits
    return _by_level(contest, needed, counts, prepared.depth)


def bits_planned(
    tree: FairshareTree,
    operator: Operator,
    *,
    pool_usage: float,
    job_usage: float,
    region: tuple[float, float] = (-0.25, 0.25),
    reading: Reading = PLAIN_CORRECTED,
) -> TreeBits:
    """Bits that let a job show on every level while priorities are in the region, before there is any usage.

    pool_usage: what a full window holds: capacity times its length (600 nodes for a year: 5,256,000 node-hours). Each
    group is assumed to have used its part of it, the pool times its target_global. By `job_fraction` at each entry's
    own target, to three digits. job_usage in the same unit.
    """
    prepared = prepare(tree)
    contest = prepared.contest
    pool = pool_usage * prepared.target_global[np.maximum(contest.parent, 0)]
    counts = _has_leaves(contest, prepared.ends)
    counts[0] = False
    allowed = np.full(contest.n_entries, np.inf)
    np.divide(job_usage, pool, out=allowed, where=pool > 0)
    needed = np.zeros(contest.n_entries, dtype=np.int64)
    rounded = _three_digits(prepared.target)
    for target in np.unique(rounded[counts & (rounded > 0)]).tolist():
        alike = np.flatnonzero(counts & (rounded == target))
        needed[alike] = _fewest_bits(operator, target, allowed[alike], region, reading)
    return _by_level(contest, needed, counts, prepared.depth)


def _fewest_bits(
    operator: Operator, target: float, allowed: FloatArray, region: tuple[float, float], reading: Reading
) -> IntArray:
    """For each allowed fraction the fewest bits with a smaller one; 0 where even the most aren't enough."""
    found = np.zeros(len(allowed), dtype=np.int64)
    for bits in range(FEWEST_BITS, MOST_BITS + 1):
        fraction = job_fraction(operator, bits=bits, region=region, reading=reading, targets=(target,))
        if fraction is not None:
            found[(found == 0) & (fraction <= allowed)] = bits
        if found.all():
            break
    return found


def _three_digits(values: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        magnitude = np.where(values > 0, np.floor(np.log10(values)), 0.0)
    step = 10.0 ** (magnitude - 2)
    rounded: FloatArray = np.minimum(np.round(values / step) * step, 1.0)
    return rounded


def _has_leaves(contest: FairshareTree, ends: IntArray) -> BoolArray:
    below, _ = sweep.sum_up(contest, ends.astype(np.float64))
    return below > 0


def _by_level(contest: FairshareTree, needed: IntArray, counts: BoolArray, depth: int) -> TreeBits:
    def levels() -> Iterable[LevelBits]:
        for number, level in enumerate(contest.levels[:depth], start=1):
            here = needed[level.lo : level.hi][counts[level.lo : level.hi]]
            yield LevelBits(number, len(here), int(here.max(initial=0)), int((here == 0).sum()))

    return TreeBits(tuple(levels()))
