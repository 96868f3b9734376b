"""Results that are large and soon asked for again, such as by the tabs of a page: kept for a minute, and not longer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from cachetools import TTLCache

from apps.core.key_locks import KeyLocks

Value = TypeVar("Value")
KEPT_S = 60.0
_making = KeyLocks()  # one for all: what is kept in one place may need what is kept in another


class KeptBriefly(Generic[Value]):
    """By key, the most recently made ones whose sizes sum up to at most `most`."""

    def __init__(self, most: float) -> None:
        self._kept: TTLCache[Hashable, tuple[float, Value]] = TTLCache(most, KEPT_S, getsizeof=lambda each: each[0])
        self._lock = threading.Lock()
        _all.add(self)

    def get(self, key: Hashable, make: Callable[[], Value], *, size: float) -> Value:
        """What is kept, or what `make` returns: threads that ask for the same meanwhile wait for it."""
        if size > self._kept.maxsize:
            return make()
        kept = self._find(key)
        if kept is None:
            with _making.hold((self, key)):
                kept = self._find(key) or self._keep(key, (size, make()))
        return kept[1]

    def _find(self, key: Hashable) -> tuple[float, Value] | None:
        with self._lock:
            return self._kept.get(key)

    def _keep(self, key: Hashable, made: tuple[float, Value]) -> tuple[float, Value]:
        with self._lock:
            return self._kept.setdefault(key, made)

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
