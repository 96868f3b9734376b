"""Quantile trees: bounds of waits by boosted regression trees on facts of the queue, trained from settled promises.

For each level q the model is a constant plus N_TREES trees on log(wait + SHIFT). A tree is grown by levels on

    gᵢ = q − (1 if yᵢ < fᵢ else 0)          the negative gradient of the pinball loss at the present bound fᵢ

with the split that makes Σ gL² / nL + Σ gR² / nR largest, over BINS quantiles of each fact. A leaf moves its bounds by
RATE times the q-quantile of yᵢ − fᵢ in it (Friedman, Greedy function approximation, 2001; Meinshausen, Quantile
regression forests, 2006, for the loss). Of a job that still waits, or was cancelled, only a lower bound of its wait is
known: while fᵢ is below it, it counts as longer than fᵢ, and beyond it teaches nothing (Powell, 1986).

Equal rows give equal trees: nothing is drawn at random. Compiled and plain histograms have the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apps.contrib.starts.prediction.calibration import SHIFT_S
from apps.contrib.starts.prediction.promises import LEVELS

LEAST_TO_TRAIN = 300  # settled jobs; below, trees learn single jobs by heart
SPAN_S = 60 * 86_400.0  # of the promises that teach
MOST_TRAINING_ROWS = 20_000  # the newest ones
N_TREES, DEPTH, RATE, BINS = 60, 4, 0.12, 32
LEAST_OF_LEAF = 20
Numbers = NDArray[np.float64]
Places = NDArray[np.int64]
Binned = NDArray[np.uint8]


class Trees(NamedTuple):
    """A trained model. edges: (facts, BINS − 1), inner bounds of the bins. Of level l, tree t and node n, whose
    children are 2 n + 1 and 2 n + 2: fact[l, t, n] with bins up to bin[l, t, n] to the left, leaf value[l, t, n]; fact
    −1: a leaf. start: (levels,).
    """

    edges: Numbers
    start: Numbers
    fact: Places
    bin: Places
    value: Numbers


def train(facts: Numbers, log_waits: Numbers, is_known: NDArray[np.bool_], job: Places) -> Trees | None:
    """Trees on n rows of facts (n, facts) and log(wait + SHIFT) (n,); None where the waits of fewer than LEAST_TO_TRAIN
    jobs are known.

    is_known: whether the job started after that wait; else it waited at least so long. job: its number; rows of one job
    have the same. Facts may be NaN: unknown.
    """
    if len(np.unique(job[is_known])) < LEAST_TO_TRAIN:
        return None
    edges = _edges(facts)
    binned = _binned(facts, edges)
    n_nodes = 2 ** (DEPTH + 1) - 1
    shape = len(LEVELS), N_TREES, n_nodes
    fact, bins, value = np.full(shape, -1, np.int64), np.zeros(shape, np.int64), np.zeros(shape)
    start = np.array([np.quantile(log_waits[is_known], level) for level in LEVELS])
    for place, level in enumerate(LEVELS):
        bound = np.full(len(facts), start[place])
        for tree in range(N_TREES):
            is_below = log_waits < bound
            teaches = is_known | ~is_below
            slope = np.where(teaches, level - is_below, 0.0)
            node = _grow(binned, slope, teaches, fact[place, tree], bins[place, tree])
            _fill(node, log_waits - bound, teaches, level, value[place, tree])
            bound += value[place, tree][node]
    return Trees(edges, start, fact, bins, value)


def predict(trees: Trees, facts: Numbers) -> Numbers:
    """Bounds of log(wait + SHIFT) at LEVELS, rising: (n, levels), of facts (n, facts)."""
    binned = _binned(facts, trees.edges)
    rows = np.arange(len(facts))
    bounds = np.empty((len(facts), len(LEVELS)))
    for place in range(len(LEVELS)):
        bounds[:, place] = trees.start[place]
        for fact, bins, value in zip(trees.fact[place], trees.bin[place], trees.value[place], strict=True):
            node = np.zeros(len(facts), np.int64)
            for _ in range(DEPTH):
                of_node = fact[node]
                goes_right = binned[rows, np.maximum(of_node, 0)] > bins[node]
                node = np.where(of_node < 0, node, 2 * node + 1 + goes_right)
            bounds[:, place] += value[node]
    return np.sort(bounds, axis=1)


def waits_s(trees: Trees, facts: Numbers) -> Numbers:
    """Bounds in seconds at LEVELS, (n, levels), rising, 0 or more."""
    return np.maximum(np.exp(predict(trees, facts)) - SHIFT_S, 0.0)


def _edges(facts: Numbers) -> Numbers:
    """Inner bounds of the bins of each fact; infinity where it has fewer values than bins."""
    edges = np.full((facts.shape[1], BINS - 1), np.inf)
    for place, cells in enumerate(facts.T):
        known = cells[~np.isnan(cells)]
        if len(known):
            inner = np.unique(np.quantile(known, np.linspace(0, 1, BINS + 1)[1:-1]))
            edges[place, : len(inner)] = inner
    return edges


def _binned(facts: Numbers, edges: Numbers) -> Binned:
    """Bin of each fact: 1 and up; 0 for an unknown one."""
    binned = np.empty(facts.shape, np.uint8)
    for place, cells in enumerate(facts.T):
        binned[:, place] = np.where(np.isnan(cells), 0, 1 + np.searchsorted(edges[place], cells, "left"))
    return binned


def _grow(binned: Binned, slope: Numbers, teaches: NDArray[np.bool_], fact: Places, bins: Places) -> Places:
    """Grow one tree into `fact` and `bins`; returns the leaf of each row."""
    from apps.contrib.starts.prediction.histograms import sum_by_bin  # each worker would load the compiler

    n_rows = len(binned)
    weight = teaches.astype(np.float64)
    node = np.zeros(n_rows, np.int64)
    rows = np.arange(n_rows)
    for depth in range(DEPTH):
        first, n_of_depth = 2**depth - 1, 2**depth
        is_here = node >= first
        inner = np.where(is_here, node - first, n_of_depth)  # those in a leaf above go into one apart
        sums, counts = sum_by_bin(binned, inner, slope, weight, n_nodes=n_of_depth + 1, n_bins=BINS + 1)
        left_sums, left_counts = np.cumsum(sums[:-1], axis=2), np.cumsum(counts[:-1], axis=2)
        all_sums, all_counts = left_sums[:, :, -1:], left_counts[:, :, -1:]
        right_sums, right_counts = all_sums - left_sums, all_counts - left_counts
        is_large = (left_counts >= LEAST_OF_LEAF) & (right_counts >= LEAST_OF_LEAF)
        gain = np.where(
            is_large,
            left_sums**2 / np.maximum(left_counts, 1.0)
            + right_sums**2 / np.maximum(right_counts, 1.0)
            - all_sums**2 / np.maximum(all_counts, 1.0),
            0.0,
        ).reshape(n_of_depth, -1)
        best = gain.argmax(axis=1)
        splits = gain[np.arange(n_of_depth), best] > 0
        fact[first : first + n_of_depth] = np.where(splits, best // sums.shape[2], -1)
        bins[first : first + n_of_depth] = np.where(splits, best % sums.shape[2], 0)
        of_node = fact[node]
        moves = is_here & (of_node >= 0)
        goes_right = binned[rows, np.maximum(of_node, 0)] > bins[node]
        node = np.where(moves, 2 * node + 1 + goes_right, node)
    return node


def _fill(node: Places, rest: Numbers, teaches: NDArray[np.bool_], level: float, value: Numbers) -> None:
    """Write into each leaf RATE times the quantile of what its rows lack."""
    rows = np.flatnonzero(teaches)
    rows = rows[np.lexsort((rest[rows], node[rows]))]
    leaves, firsts, n_of = np.unique(node[rows], return_index=True, return_counts=True)
    value[leaves] = RATE * rest[rows[firsts + np.minimum((level * n_of).astype(np.int64), n_of - 1)]]
