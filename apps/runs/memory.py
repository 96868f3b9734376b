"""Memory of processes that compute or serve large arrays."""

from __future__ import annotations

import ctypes
import gc

# From malloc.h. glibc accepts no larger threshold for individually mapped blocks.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MAPPED_FROM_BYTES = 32 * 2**20
_KEPT_BYTES = 128 * 2**20


def keep_freed_memory() -> bool:
    """Keep up to 128 MiB of freed memory for later allocations.

    Otherwise glibc returns each array above 128 kB to the system when it is freed, and page faults take half of the
    time of a recompute of 300,000 entries. Returns False if the C library has no such setting.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _MAPPED_FROM_BYTES)) and bool(mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES))


def return_freed_memory() -> None:
    """Return freed memory to the system, after much of it was needed for a moment."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def spare_collector() -> None:
    """Leave what exists now out of the garbage collector's searches: it stays until the process ends.

    Half a million objects of code and settings would stop all threads for a tenth of a second each time.
    """
    gc.collect()
    gc.freeze()
