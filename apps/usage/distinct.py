"""Number the distinct values of a column of whole numbers, as machine code where it is worth it."""

from __future__ import annotations

import numpy as np

from apps.engine.arrays import FEWEST_FOR_MACHINE_CODE, read_only
from apps.usage.parsers.base import I8


def number_distinct(values: I8) -> tuple[I8, I8]:
    """Number the distinct values from 0, ascending: the number of each value, and the first row of each number."""
    if len(values) >= FEWEST_FOR_MACHINE_CODE:
        # Imported here, because few values shouldn't wait for numba to be loaded.
        from apps.engine import fast
        from apps.usage import distinct_kernel

        if fast.is_on():
            number, first = np.empty((2, len(values)), np.int64)
            places = distinct_kernel.empty_places(len(values))
            n = fast.attempt(distinct_kernel.number_by_appearance, read_only(values), places, number, first)
            if n:
                first = first[:n]
                ascending = np.argsort(values[first])
                rank = np.empty(n, np.int64)
                rank[ascending] = np.arange(n)
                return rank[number], first[ascending]
    _, first, number = np.unique(values, return_index=True, return_inverse=True)
    return number.astype(np.int64), first.astype(np.int64)


def distinct_values(values: I8) -> I8:
    """Each value once, ascending."""
    if len(values) < FEWEST_FOR_MACHINE_CODE:
        return np.unique(values)
    return values[number_distinct(values)[1]]
