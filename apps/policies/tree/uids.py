"""Uids of entries: in the order in which they are made, so that siblings keep the order of their creation.

Where an algorithm depends on the order of siblings (ties of Slurm's Fair Tree), it is this one: an uid survives
revisions, renames, moves and export. RFC 9562, version 7: milliseconds, then a counter, then random bits.
"""

from __future__ import annotations

import os
import threading
import time
from uuid import UUID

import numpy as np
import numpy.typing as npt

U1 = npt.NDArray[np.uint8]

_PER_MS = 1 << 12
_VERSION, _VARIANT = 0x7000, 0x80


class _Ticks:
    """Numbers that only rise within a process: milliseconds · 4096, running ahead of the clock where many are asked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0

    def take(self, n: int) -> int:
        """The first of n numbers."""
        with self._lock:
            first = max(self._next, time.time_ns() // 1_000_000 * _PER_MS)
            self._next = first + n
            return first


_ticks = _Ticks()


def new_uid() -> UUID:
    """One that sorts after all that this process made before."""
    return UUID(bytes=new_uids(1).tobytes())


def new_uids(n: int) -> U1:
    """So many, (n, 16), rising: a million are written at the end of the indexes."""
    ticks = np.uint64(_ticks.take(n)) + np.arange(n, dtype=np.uint64)
    uids = np.frombuffer(os.urandom(16 * n), dtype=np.uint8).reshape(n, 16).copy()
    upper = (ticks // np.uint64(_PER_MS) << np.uint64(16)) + np.uint64(_VERSION) + ticks % np.uint64(_PER_MS)
    uids[:, :8] = upper.astype(">u8").view(np.uint8).reshape(n, 8)
    uids[:, 8] = uids[:, 8] & 0x3F | _VARIANT
    return uids


def in_order_of_creation(uid: U1) -> npt.NDArray[np.int64]:
    """(n,) places of uids (n, 16) in the order in which they were made; those without a time come first, by value."""
    halves = np.ascontiguousarray(uid).view(">u8")
    place = np.empty(len(uid), dtype=np.int64)
    place[np.lexsort((halves[:, 1], halves[:, 0], uid[:, 6] >> 4 == _VERSION >> 12))] = np.arange(len(uid))
    return place
