"""The task queues. A message has the id of a run: the work itself is in the database."""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from typing import Any

from celery import Celery
from celery.signals import beat_init, celeryd_after_setup, worker_init, worker_ready, worker_shutting_down
from kombu.exceptions import OperationalError
from kombu.transport import TRANSPORT_ALIASES

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")

# Messages are JSON and hold ids only: they are no danger to a worker that runs as root, in a container.
warnings.filterwarnings("ignore", message="You're running the worker with superuser privileges")

TRANSPORT_ALIASES["filesystem"] = "apps.cli.stack.file_broker:Transport"

app = Celery("fairshare")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@worker_init.connect
def prepare_worker(**_signal: Any) -> None:
    from django.conf import settings

    from apps.core.postgresql import bound_statements
    from apps.runs.memory import keep_freed_memory
    from apps.runs.presence import refusal

    if reason := refusal():
        raise SystemExit(reason)
    keep_freed_memory()
    bound_statements(settings.FAIRSHARE_STATEMENT_S)


@celeryd_after_setup.connect
def load_ahead(**_signal: Any) -> None:
    """Before the first message, and before processes of a pool are forked, which share what is loaded."""
    from django.db import DatabaseError, connection

    from apps.core import clock
    from apps.priorities.recompute import staleness
    from apps.runs.queues import RECOMPUTE, consumed_queues

    if RECOMPUTE in consumed_queues():
        with suppress(DatabaseError):  # the first run reads it
            staleness.load_ahead(at=clock.now())
        connection.close()


@worker_shutting_down.connect
def finish_step(**_signal: Any) -> None:
    """After SIGTERM: what is at work is finished or, between two steps of something long, returned to the queue."""
    from apps.runs.shutdown import request_stop

    request_stop()


@worker_ready.connect
def look_for_work(**_signal: Any) -> None:
    """A restarted worker takes over at once what its killed predecessor worked on."""
    from django.db import DatabaseError, connection

    from apps.core import clock
    from apps.runs.presence import keep_reporting
    from apps.runs.queues import FEDERATION, consumed_queues
    from apps.runs.services import send_due_runs

    keep_reporting("outgoing" if consumed_queues() == {FEDERATION} else "worker", queues=consumed_queues())
    with suppress(DatabaseError):  # beat's next sweep does it
        send_due_runs(at=clock.now())
    connection.close()


@beat_init.connect
def prepare_beat(**_signal: Any) -> None:
    from apps.runs.presence import keep_reporting, refusal

    if reason := refusal():
        raise SystemExit(reason)
    keep_reporting("beat")
    entry = app.conf.beat_schedule.get("back-up")
    if entry is not None:  # tried at the start, too: what is wrong with it shows on the day of installation
        with suppress(OperationalError):
            app.send_task(entry["task"], expires=entry["schedule"], **entry["options"])
