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


def register(kind: str, handler: Handler, *, is_low_priority: bool = False, is_outgoing: bool = False) -> None:
    """Register the handler of a kind of run.

    A handler works in steps, each inside `lease.fenced()`, resumes from `run.cursor`, and returns the result.
    is_low_priority: runs of this kind wait until no others are due, and let others run between their steps.
    is_outgoing: they call other hosts, and have a worker of their own.
    """
    _handlers[kind] = handler
    if is_outgoing:
        outgoing_kinds.add(kind)
    if is_low_priority:
        _low_priority.add(kind)


def low_priority_kinds() -> list[str]:
    return sorted(_low_priority)


def kinds() -> list[str]:
    return sorted(_handlers)


def handler_of(kind: str) -> Handler:
    return _handlers[kind]
