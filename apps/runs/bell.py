"""Send runs to their queues, without ever waiting for the broker: the row of a run is what counts."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from typing import Any

import celery
from django.conf import settings
from kombu import Connection

from apps.runs.queues import QUEUES, queue_of

logger = logging.getLogger(__name__)

TASK = "apps.runs.tasks.work_run"
PATIENCE_S = 0.2  # for a connection, and for each answer of RabbitMQ
SILENT_S = 5.0  # after a failure, nothing is tried for so long: each sweep sends again

_silent_until_s = 0.0


def send_runs(runs: Collection[tuple[int, str]], *, only_to_empty_queues: bool = False) -> None:
    """Send runs, each an id and a kind, to the queues of their kinds. What the broker loses, the next sweep sends.

    only_to_empty_queues: where messages wait, those of these runs may be among them.
    """
    global _silent_until_s
    if not runs or time.monotonic() < _silent_until_s:
        return
    try:
        # A connection of its own: those of Celery's pool are retried for seconds, and workers wait on theirs for long.
        with _broker(PATIENCE_S) as broker:
            queues = {queue_of(kind) for _id, kind in runs}
            full = {queue for queue in queues if _n_waiting(broker, queue)} if only_to_empty_queues else set()
            for id, kind in runs:
                if queue_of(kind) not in full:
                    _send(broker, id, kind)
    except Exception as error:
        _silent_until_s = time.monotonic() + SILENT_S
        logger.warning("The broker doesn't answer (%s): the next sweep finds waiting work.", type(error).__name__)


def count_messages(*, patience_s: float) -> dict[str, int]:
    """How many messages wait on each queue. Raises what the broker's library raises if there is no answer in time."""
    with _broker(patience_s) as broker:
        return {queue: _n_waiting(broker, queue) for queue in QUEUES}


def _broker(patience_s: float) -> Connection:
    bounds = {
        "max_retries": 0,
        "socket_connect_timeout": patience_s,  # Redis
        "socket_timeout": patience_s / 2,  # of three answers: a connection introduces itself first
        "read_timeout": patience_s,  # RabbitMQ
        "write_timeout": patience_s,
    }
    return celery.current_app.connection_for_write(
        connect_timeout=patience_s,
        transport_options={} if settings.CELERY_BROKER_URL.startswith("filesystem:") else bounds,
    )


def _send(broker: Connection, id: int, kind: str) -> None:
    options: dict[str, Any] = {"queue": queue_of(kind), "retry": False, "ignore_result": True}
    celery.current_app.send_task(TASK, args=(id, kind), connection=broker, **options)


def _n_waiting(broker: Connection, queue: str) -> int:
    """How many messages no worker has taken yet."""
    channel: Any = broker.channel()  # the package's types don't know its methods
    with channel:
        try:
            return int(channel.queue_declare(queue, passive=True).message_count)
        except broker.channel_errors:  # Redis has no empty queues, and a new RabbitMQ none at all
            return 0
