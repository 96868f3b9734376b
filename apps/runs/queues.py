"""The queues of Celery on which runs and beat's tasks wait, and which kind of run waits on which."""

from __future__ import annotations

from collections.abc import Collection

from celery import current_app

INTERACTIVE = "interactive"  # a person waits for the result
RECOMPUTE = "recompute"
PERIODIC = "celery"  # beat's tasks: Celery's own default
IMPORT = "import"  # also removes records
FEDERATION = "federation"  # calls other hosts, and waits for them most of the time
SERIES = "series"
QUEUES = (INTERACTIVE, RECOMPUTE, PERIODIC, IMPORT, FEDERATION, SERIES)  # those of later ones let earlier ones through

_queues: dict[str, str] = {}


def assign(kind: str, queue: str) -> None:
    if queue not in QUEUES:
        raise ValueError(f"There is no queue {queue}.")
    _queues[kind] = queue


def queue_of(kind: str) -> str:
    return _queues.get(kind, INTERACTIVE)


def rank_of(kind: str) -> int:
    return QUEUES.index(queue_of(kind))


def kinds_on(queue: str) -> list[str]:
    return sorted(kind for kind, each in _queues.items() if each == queue)


def consumed_queues() -> Collection[str]:
    """Those of this worker, as `-Q` and `-X` choose them; all of them outside of workers."""
    return frozenset(current_app.amqp.queues.consume_from)
