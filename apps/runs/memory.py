"""Memory of processes that compute or serve large arrays."""

from __future__ import annotations

import ctypes
import gc
import resource
import time
from pathlib import Path

# From malloc.h. glibc accepts no larger threshold for individually mapped blocks.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MAPPED_FROM_BYTES = 32 * 2**20
_KEPT_BYTES = 128 * 2**20
GROWN_BYTES, EVERY_S = 64 * 2**20, 10.0


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


def own_bytes() -> int:
    """Resident memory that isn't shared with other processes or files; 0 where the system has no such number."""
    try:
        _size, resident, shared = map(int, Path("/proc/self/statm").read_text().split()[:3])
    except OSError:
        return 0
    return (resident - shared) * resource.getpagesize()


class MemoryReturn:
    """Returns freed memory once this process has grown: one large answer needs gigabytes for a moment.

    Not at once: what is returned has to be asked for again by the next request of a page that needs as much.
    """

    def __init__(self) -> None:
        self._was_bytes, self._next_s = own_bytes(), 0.0

    def after_growth(self) -> bool:
        """Whether the process had grown by GROWN_BYTES since the last time, EVERY_S ago or more."""
        if time.monotonic() < self._next_s or own_bytes() < self._was_bytes + GROWN_BYTES:
            return False
        self.now()
        return True

    def now(self) -> None:
        """What is unreachable is freed first: an error of a form has the view's variables, and these have the form.

        That takes some milliseconds where the collector is spared what stays.
        """
        gc.collect()
        return_freed_memory()
        self._was_bytes, self._next_s = own_bytes(), time.monotonic() + EVERY_S


def spare_collector() -> None:
    """Leave what exists now out of the garbage collector's searches: it stays until the process ends.

    Half a million objects of code and settings would stop all threads for a tenth of a second each time.
    """
    gc.collect()
    gc.freeze()
