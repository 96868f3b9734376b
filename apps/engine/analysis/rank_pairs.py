"""Pairs of leaves whose order differs between two rankings."""

from __future__ import annotations

import numpy as np

from apps.engine.arrays import BoolArray, IntArray


def changed_pairs(before: IntArray, after: IntArray) -> tuple[int, int]:
    """(pairs that differ before and tie after, pairs that change places) of two rankings of some leaves.

    before, after: (n,) ranks, equal ones tie. O(n log² n), a merge sort that counts level by level.
    """
    most = int(after.max(initial=0)) + 1
    _, both = np.unique(before * most + after, return_counts=True)
    _, tied = np.unique(after, return_counts=True)
    order = np.lexsort((after, before))
    return int(_pairs(tied) - _pairs(both)), _inversions(after[order])


def _out_of_order(values: IntArray) -> BoolArray:
    """Those with a larger value before or a smaller one after them: all others are in no inversion."""
    largest_before = np.maximum.accumulate(values)
    smallest_after = np.minimum.accumulate(values[::-1])[::-1]
    found: BoolArray = (values < largest_before) | (values > smallest_after)
    return found


def _pairs(sizes: IntArray) -> int:
    return int((sizes * (sizes - 1) // 2).sum())


def _inversions(values: IntArray) -> int:
    """Pairs of places whose values are in falling order."""
    values = values[_out_of_order(values)]
    _, dense = np.unique(values, return_inverse=True)
    n = len(dense)
    span = 1 << max(n - 1, 0).bit_length()
    row = np.full(span, n, dtype=np.int64)  # what is filled up is larger than all, at the end: no inversion
    row[:n] = dense
    found, width = 0, 1
    while width < span:
        blocks = row.reshape(-1, 2, width)
        apart = np.arange(len(blocks), dtype=np.int64)[:, None] * (n + 1)
        left, right = (blocks[:, 0] + apart).ravel(), (blocks[:, 1] + apart).ravel()
        upto = np.searchsorted(left, right, side="right").reshape(-1, width) - apart // (n + 1) * width
        found += int((width - upto).sum())
        row = np.sort(row.reshape(-1, 2 * width), axis=1).ravel()
        width *= 2
    return found
