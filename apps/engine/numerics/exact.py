"""Doubles as Python's integers in one unit: sums and products of them are exact."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import FloatArray

WholeNumbers = npt.NDArray[np.object_]

_MANTISSA_BITS = 53


def whole_numbers(values: FloatArray) -> WholeNumbers:
    """Doubles ≥ 0 as integers that all count in the same power of two."""
    mantissa, exponent = np.frexp(values)
    is_some = mantissa > 0
    shift = np.where(is_some, exponent - np.min(exponent, where=is_some, initial=2**15), 0)
    whole = np.ldexp(mantissa, _MANTISSA_BITS).astype(np.int64).astype(np.object_)
    found: WholeNumbers = whole << shift.astype(np.object_)
    return found
