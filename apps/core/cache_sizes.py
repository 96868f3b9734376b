"""Sizes and short keys for caches that are bounded by a sum of sizes and by a number of values.

A value holds more than its size says: an object, a mapped file with the disk blocks of a deleted one. A cache that is
bounded by size alone holds thousands of small ones.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Value = TypeVar("Value")


def sized(most: int, most_values: int, size_of: Callable[[Value], int]) -> Callable[[Value], int]:
    """Return `getsizeof` for a cache of size `most`, which then holds at most `most_values`.

    A value that is larger than the cache is cached alone.
    """
    least = -(-most // most_values)
    return lambda value: min(max(size_of(value), least), most)


def mask_digest(mask: npt.NDArray[Any]) -> bytes:
    """A short name of a mask for keys, which would otherwise hold a bit for each of a million entries."""
    return blake2b(np.packbits(mask).tobytes(), digest_size=16).digest()
