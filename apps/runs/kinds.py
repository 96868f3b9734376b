"""The kinds of runs and what works on each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apps.runs.leases import Lease
from apps.runs.models import Run
from apps.runs.workers import outgoing_kinds

Handler = Callable[[Run, Lease], dict[str, Any]]

_handlers: dict[str, Handler] = {}
_low_priority: set[str] = set()
_most_of_key: dict[str, int] = {}
_most_threads: dict[str, int] = {}


def register(
    kind: str,
    handler: Handler,
    *,
    is_low_priority: bool = False,
    is_outgoing: bool = False,
    most_of_key: int | None = None,
    most_threads: int | None = None,
) -> None:
    """Register the handler of a kind of run.

    A handler works in steps, each inside `lease.fenced()`, resumes from `run.cursor`, and returns the result.
    is_low_priority: runs of this kind wait until no others are due, and let others run between their steps.
    is_outgoing: they call other hosts, and have a worker of their own.
    most_of_key: as many with the same `limit_key` run at once.
    most_threads: as many threads of the worker for other hosts work on them; the others are left to other kinds.
    """
    _handlers[kind] = handler
    if is_outgoing:
        outgoing_kinds.add(kind)
    if is_low_priority:
        _low_priority.add(kind)
    if most_of_key is not None:
        _most_of_key[kind] = most_of_key
    if most_threads is not None:
        _most_threads[kind] = most_threads


def low_priority_kinds() -> list[str]:
    return sorted(_low_priority)


def limits_by_key() -> dict[str, int]:
    """By kind, how many runs with the same `limit_key` run at once."""
    return dict(_most_of_key)


def limits_of_threads() -> dict[str, int]:
    """By kind, how many threads of the worker for other hosts work on it."""
    return dict(_most_threads)


def kinds() -> list[str]:
    return sorted(_handlers)


def handler_of(kind: str) -> Handler:
    return _handlers[kind]
