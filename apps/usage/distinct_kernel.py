"""Distinct whole numbers, numbered in the order in which they appear, as machine code."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from apps.engine.fast import compiled_borrowing

I4 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int64]
_MOST_STEPS = 32  # for each value, on average; few are needed but for values that were chosen to collide


def empty_places(most: int) -> I4:
    """Room for so many distinct values: the number of each at the first free place from its hash on, −1 for none."""
    return np.full(1 << (2 * most).bit_length(), -1, np.int32)


@compiled_borrowing
def number_by_appearance(values: I8, places: I4, number: I8, first: I8) -> int:
    """Fill in the number of each value, and the first row of each number; return how many there are.

    0: too many of the values collide in the table.
    """
    n, mask = 0, len(places) - 1
    steps_left = _MOST_STEPS * len(values)
    for row in range(len(values)):
        value = values[row]
        if row and value == values[row - 1]:  # as most are in some columns
            number[row] = number[row - 1]
            continue
        folded = (value ^ (value >> 31)) & 0x7FFFFFFF  # short names as numbers differ in their upper bytes, too
        at = (folded * 0x9E3779B1 >> 29) & mask
        while places[at] >= 0 and values[first[places[at]]] != value:
            at = (at + 1) & mask
            steps_left -= 1
        if steps_left < 0:
            return 0
        if places[at] < 0:
            places[at] = n
            first[n] = row
            n += 1
        number[row] = places[at]
    return n
