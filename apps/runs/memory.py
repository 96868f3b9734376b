"""Memory settings of a process that repeatedly computes large arrays."""

from __future__ import annotations

import ctypes

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
