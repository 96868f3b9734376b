"""The kinds of runs and what works on each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.utils.functional import Promise

from apps.runs.leases import Lease
from apps.runs.models import Run
from apps.runs.queues import assign, consumed_queues, queue_of, rank_of

Handler = Callable[[Run, Lease], dict[str, Any]]

_handlers: dict[str, Handler] = {}
_most_of_key: dict[str, int] = {}
_most_threads: dict[str, int] = {}
_length: dict[str, int] = {}
_titles: dict[str, str | Promise] = {}


def register(
    kind: str,
    handler: Handler,
    *,
    queue: str,
    most_of_key: int | None = None,
    most_threads: int | None = None,
    length: int = 0,
    title: str | Promise = "",
) -> None:
    """Register the handler of a kind of run, and the queue on which such runs wait.

    A handler works in steps, each inside `lease.fenced()`, resumes from `run.cursor`, and returns the result. One with
    long runs calls `work_other_runs` between its steps.
    most_of_key: as many with the same `limit_key` run at once.
    most_threads: as many threads of one worker work on them; the others are left to other kinds.
    length: of its runs among those of its queue; between their steps, longer ones let shorter ones through.
    title: what such a run is, in plain words, for those who wait behind it.
    """
    _handlers[kind] = handler
    assign(kind, queue)
    _length[kind] = length
    _titles[kind] = title
    if most_of_key is not None:
        _most_of_key[kind] = most_of_key
    if most_threads is not None:
        _most_threads[kind] = most_threads


def limits_by_key() -> dict[str, int]:
    """By kind, how many runs with the same `limit_key` run at once."""
    return dict(_most_of_key)


def limits_of_threads() -> dict[str, int]:
    """By kind, how many threads of one worker work on it."""
    return dict(_most_threads)


def kinds() -> list[str]:
    return sorted(_handlers)


def own_kinds() -> list[str]:
    """Kinds whose queues this worker consumes; all kinds outside of workers."""
    queues = consumed_queues()
    return [kind for kind in kinds() if queue_of(kind) in queues]


def kinds_before(kind: str) -> list[str]:
    """Kinds of this worker whose runs don't wait for runs of this kind."""
    return [each for each in own_kinds() if rank_of(each) < rank_of(kind)]


def shorter_kinds(kind: str) -> list[str]:
    """Kinds on the same queue, the shortest first, whose runs don't wait for the end of a run of this kind."""
    length = _length.get(kind, 0)
    shorter = [each for each in own_kinds() if queue_of(each) == queue_of(kind) and _length.get(each, 0) < length]
    return sorted(shorter, key=lambda each: _length.get(each, 0))


def kinds_in_turn(kind: str) -> list[str]:
    """Other kinds on its queue, if it has short and long ones; elsewhere runs begin in the order of their messages."""
    others = [each for each in own_kinds() if each != kind and queue_of(each) == queue_of(kind)]
    return others if any(_length.get(each, 0) != _length.get(kind, 0) for each in others) else []


def title_of(kind: str) -> str:
    """What a run of this kind is, in the reader's language; its name where it has no title."""
    return str(_titles.get(kind) or kind.replace("_", " "))


def handler_of(kind: str) -> Handler:
    return _handlers[kind]
