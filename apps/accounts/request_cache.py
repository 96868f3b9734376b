"""Cache query results that a read-only request needs several times (groups, grants, policies, trees).

Requests that write don't cache: their own changes may alter the results.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")
_cache: ContextVar[dict[Hashable, Any] | None] = ContextVar("query results of this request", default=None)


@contextmanager
def cache_for_request() -> Iterator[None]:
    """Cache until the outermost such block of this thread ends."""
    if _cache.get() is not None:
        yield
        return
    token = _cache.set({})
    try:
        yield
    finally:
        _cache.reset(token)


@contextmanager
def separate_cache() -> Iterator[None]:
    """Use what is cached, and forget at the end what was added: it was read elsewhere."""
    cached = _cache.get()
    token = _cache.set(None if cached is None else dict(cached))
    try:
        yield
    finally:
        _cache.reset(token)


def is_caching() -> bool:
    """Whether `once_per_request` keeps results, so that reading more than one is asked for may save a query."""
    return _cache.get() is not None


def once_per_request(key: Hashable, query: Callable[[], T]) -> T:
    """The result of `query`, cached under `key` inside `cache_for_request`. Callers don't modify it."""
    cached = _cache.get()
    if cached is None:
        return query()
    if key not in cached:
        cached[key] = query()
    result: T = cached[key]
    return result


def store_for_request(key: Hashable, known: object) -> None:
    """Store a result of another query for a later `once_per_request`."""
    cached = _cache.get()
    if cached is not None:
        cached.setdefault(key, known)
