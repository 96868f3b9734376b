"""Memory of a process that computes large arrays again and again."""

from __future__ import annotations

import ctypes

# From malloc.h. glibc takes no larger threshold for blocks that it maps one by one.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MAPPED_FROM_BYTES = 32 * 2**20
_KEPT_BYTES = 128 * 2**20


def keep_freed_memory() -> bool:
    """Keep up to 128 MiB of freed memory for what is computed next.

    Else glibc returns each array above 128 kB to the system when it is freed, and its pages come back one fault at a
    time: half of the time of a recompute of 300,000 entries. False where the C library has no such setting.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _MAPPED_FROM_BYTES)) and bool(mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES))
