"""Sums by node, fact and bin: most of the time of training trees. Loaded with the compiler when trees grow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apps.engine import fast
from apps.engine.fast import compiled

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]
Binned = NDArray[np.uint8]


def sum_by_bin(
    binned: Binned, node: Places, slope: Numbers, weight: Numbers, *, n_nodes: int, n_bins: int
) -> tuple[Numbers, Numbers]:
    """Sums of slopes and of weights by node, fact and bin, added in the order of the rows."""
    n_facts = binned.shape[1]
    sums, counts = np.zeros((2, n_nodes, n_facts, n_bins))
    if fast.is_on() and fast.attempt(_add_rows, binned, node, slope, weight, sums, counts):
        return sums, counts
    for fact in range(n_facts):
        cell = node * n_bins + binned[:, fact]
        for target, values in ((sums, slope), (counts, weight)):
            target[:, fact] = np.bincount(cell, values, n_nodes * n_bins).reshape(n_nodes, -1)
    return sums, counts


@compiled
def _add_rows(binned: Binned, node: Places, slope: Numbers, weight: Numbers, sums: Numbers, counts: Numbers) -> bool:
    """Add up `sum_by_bin`; returns True."""
    for row in range(binned.shape[0]):
        at, move, one = node[row], slope[row], weight[row]
        if one == 0.0:
            continue
        for fact in range(binned.shape[1]):
            sums[at, fact, binned[row, fact]] += move
            counts[at, fact, binned[row, fact]] += one
    return True
