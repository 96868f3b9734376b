"""Which code works on which kind of run. Rooms above register theirs when the application starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apps.runs.leases import Lease
    from apps.runs.models import Run

Handler = Callable[["Run", "Lease"], dict[str, Any]]

_handlers: dict[str, Handler] = {}
_patient: set[str] = set()


def register(kind: str, handler: Handler, *, is_patient: bool = False) -> None:
    """A handler works in steps, each inside `lease.fenced()`, goes on from `run.cursor`, and returns the result.

    is_patient: runs of this kind wait until nothing else is due, and let others go first between their steps.
    """
    _handlers[kind] = handler
    if is_patient:
        _patient.add(kind)


def patient_kinds() -> list[str]:
    return sorted(_patient)


def kinds() -> list[str]:
    return sorted(_handlers)


def handler_of(kind: str) -> Handler:
    return _handlers[kind]
