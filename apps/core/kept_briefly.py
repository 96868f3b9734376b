"""Results that are large and soon asked for again, such as by the tabs of a page: kept for a minute, and not longer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from cachetools import TTLCache

Value = TypeVar("Value")
KEPT_S = 60.0


class KeptBriefly(Generic[Value]):
    """By key, the most recently made ones whose sizes sum up to at most `most`."""

    def __init__(self, most: float) -> None:
        self._kept: TTLCache[Hashable, tuple[float, Value]] = TTLCache(most, KEPT_S, getsizeof=lambda each: each[0])
        self._lock = threading.Lock()
        _all.add(self)

    def get(self, key: Hashable, make: Callable[[], Value], *, size: float) -> Value:
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None:
            return kept[1]
        value = make()
        if size > self._kept.maxsize:
            return value
        with self._lock:
            return self._kept.setdefault(key, (size, value))[1]  # another thread may have been faster

    def drop_old(self) -> None:
        with self._lock:
            self._kept.expire()

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()


_all: WeakSet[KeptBriefly[Any]] = WeakSet()


def drop_old() -> None:
    """Drop what was kept long enough. Without it, that would wait for the next request."""
    for each in list(_all):
        each.drop_old()
