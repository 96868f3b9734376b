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

from apps.core.mapped_columns import is_mapped

Value = TypeVar("Value")
_REFERENCE_BYTES, _TEXT_BYTES = 8, 64
_MOST_MEASURED_PARTS = 100  # a longer list is one of small numbers


def sized(most: int, most_values: int, size_of: Callable[[Value], int]) -> Callable[[Value], int]:
    """Return `getsizeof` for a cache of size `most`, which then holds at most `most_values`.

    A value that is larger than the cache is cached alone.
    """
    least = -(-most // most_values)
    return lambda value: min(max(size_of(value), least), most)


def mask_digest(mask: npt.NDArray[Any]) -> bytes:
    """A short name of a mask for keys, which would otherwise hold a bit for each of a million entries."""
    return blake2b(np.packbits(mask).tobytes(), digest_size=16).digest()


def own_bytes(*values: Any) -> int:
    """Bytes of arrays, texts and lists that these values hold by now, with what was derived from them and kept.

    Arrays of mapped files are free. What several hold is counted once.
    """
    seen: set[int] = set()
    waiting, n_bytes = list(values), 0
    while waiting:
        value = waiting.pop()
        if isinstance(value, np.ndarray):
            mapped = is_mapped(value)
            while isinstance(value.base, np.ndarray):
                value = value.base
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray):
            n_bytes += 0 if mapped else value.nbytes
        elif isinstance(value, bytes):
            n_bytes += len(value)
        elif isinstance(value, list | tuple):
            is_of_texts = bool(value) and isinstance(value[0], str)
            n_bytes += len(value) * (_TEXT_BYTES if is_of_texts else _REFERENCE_BYTES)
            waiting += [] if is_of_texts else value[:_MOST_MEASURED_PARTS]
        elif type(value).__module__.startswith("apps."):
            waiting += getattr(value, "__dict__", {}).values()
            waiting += [getattr(value, name, None) for name in getattr(type(value), "__slots__", ())]
    return n_bytes
