"""Ring for workers through the broker, without ever waiting for it: the row of a run is what counts."""

from __future__ import annotations

import logging
import time
from typing import Any

import celery
from django.conf import settings

from apps.core import clock
from apps.runs.workers import OUTGOING_QUEUE, OUTGOING_TASK, has_outgoing_worker

logger = logging.getLogger(__name__)

TASK = "apps.runs.tasks.work_runs"
PATIENCE_S = 0.25  # for a connection, and for each answer of RabbitMQ
SILENT_S = 5.0  # after a failure, nothing is tried for so long: each sweep rings again
_BOUNDS = {
    "max_retries": 0,
    "socket_connect_timeout": PATIENCE_S,  # Redis
    "socket_timeout": 0.1,  # of three answers: a connection introduces itself first
    "read_timeout": PATIENCE_S,  # RabbitMQ
    "write_timeout": PATIENCE_S,
}

_silent_until_s = 0.0


def wake_workers(*, is_outgoing: bool = False) -> None:
    """Notify workers through the broker. If it doesn't answer at once, the next sweep finds the work."""
    global _silent_until_s
    if time.monotonic() < _silent_until_s:
        return
    try:
        task, options = TASK, dict[str, Any]()
        if is_outgoing and has_outgoing_worker(clock.now()):
            task, options = OUTGOING_TASK, {"queue": OUTGOING_QUEUE}
        app = celery.current_app
        # A connection of its own: those of Celery's pool are retried for seconds, and workers wait on theirs for long.
        with app.connection_for_write(
            connect_timeout=PATIENCE_S,
            transport_options={} if settings.CELERY_BROKER_URL.startswith("filesystem:") else dict(_BOUNDS),
        ) as broker:
            app.send_task(task, connection=broker, retry=False, ignore_result=True, **options)
    except Exception as error:
        _silent_until_s = time.monotonic() + SILENT_S
        logger.warning("The broker doesn't answer (%s): the next sweep finds waiting work.", type(error).__name__)
