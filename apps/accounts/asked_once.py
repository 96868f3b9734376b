"""What a request that only reads asks the database several times is asked once: its groups, grants, policies, trees.

Whoever writes keeps nothing, because what it may do can change with what it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")
_kept: ContextVar[dict[Hashable, Any] | None] = ContextVar("answers of this request", default=None)


@contextmanager
def answers_kept() -> Iterator[None]:
    """Until the end of the block, or of the one around it; in this thread."""
    if _kept.get() is not None:
        yield
        return
    token = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(token)


def ask_once(key: Hashable, ask: Callable[[], T]) -> T:
    """The answer to a question that `key` names; asked each time where nothing is kept. Nobody changes an answer."""
    kept = _kept.get()
    if kept is None:
        return ask()
    if key not in kept:
        kept[key] = ask()
    found: T = kept[key]
    return found
