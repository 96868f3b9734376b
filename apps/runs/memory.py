"""Memory of processes that compute or serve large arrays."""

from __future__ import annotations

import ctypes
import gc
import resource
import time
from pathlib import Path

# From malloc.h. glibc accepts no larger threshold for individually mapped blocks.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_MAPPED_FROM_BYTES = 32 * 2**20
_KEPT_BYTES = 128 * 2**20
GROWN_BYTES, EVERY_S = 64 * 2**20, 10.0
_LINGERING_BYTES = 2 * GROWN_BYTES
_YOUNG = 1  # the collector's generation of objects that were made since some moments


def keep_freed_memory() -> bool:
    """Keep up to 128 MiB of freed memory for later allocations.

    Otherwise glibc returns each array above 128 kB to the system when it is freed, and page faults take half of the
    time of a recompute of 300,000 entries. Returns False if the C library has no such setting.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _MAPPED_FROM_BYTES)) and bool(mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES))


def share_one_heap() -> bool:
    """Let all threads take memory from one heap.

    By default, glibc gives each thread one of its own. Beside small blocks that stay, most of them can't be returned:
    650 of 1,050 MB, after all pages and routes of a million entries. Returns False if the C library has no such limit.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_M_ARENA_MAX, 1))


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
    """Returns freed memory again and again, and searches for what is unreachable once this process has grown.

    Called each second, it takes 0.1 ms where nothing was freed. Freed arrays lie between others that are in use, so
    the C library returns few of them: beside eight readers of a million entries, 300 to 500 MB would stay.
    """

    def __init__(self) -> None:
        self._least_bytes = self._searched_bytes = own_bytes()
        self._next_s = 0.0

    def again(self) -> bool:
        """Return freed memory. Whether it was searched for: the process has grown by GROWN_BYTES, EVERY_S ago or more.

        It has grown where it holds so much more than at its least since the last search.
        """
        return_freed_memory()
        self._least_bytes = min(self._least_bytes, own_bytes())
        if time.monotonic() < self._next_s or own_bytes() < self._least_bytes + GROWN_BYTES:
            return False
        self.now()
        return True

    def now(self) -> None:
        """What is unreachable is freed first: an error of a form has the view's variables, and these have the form.

        Young objects are searched, in a moment. All others, which stops each thread for a tenth of a second, only where
        the process stays much larger than after the last such search.
        """
        gc.collect(_YOUNG)
        return_freed_memory()
        if own_bytes() > self._searched_bytes + _LINGERING_BYTES:
            gc.collect()
            return_freed_memory()
            self._searched_bytes = own_bytes()
        self._least_bytes, self._next_s = own_bytes(), time.monotonic() + EVERY_S


def spare_collector() -> None:
    """Leave what exists now out of the garbage collector's searches: it stays until the process ends.

    Half a million objects of code and settings would stop all threads for a tenth of a second each time.
    """
    gc.collect()
    gc.freeze()
