"""Locks by key: of several threads that need the same value, one computes it, and the others wait for that one."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary


class KeyLocks:
    """A lock of each key, for as long as a thread holds it or waits for it.

    A thread that holds one never waits for another of these: two threads could wait for each other.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Hashable, threading.Lock] = WeakValueDictionary()
        self._finding = threading.Lock()
        self._here = threading.local()

    def __len__(self) -> int:
        return len(self._locks)

    @contextmanager
    def hold(self, key: Hashable) -> Iterator[None]:
        if getattr(self._here, "holds_one", False):
            yield
            return
        with self._finding:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            self._here.holds_one = True
            try:
                yield
            finally:
                self._here.holds_one = False
