"""Checks of background work: broker, workers by queue, and beat."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.conf import settings
from django.db.models import Min

from apps.cli.doctor.check import Finding
from apps.core.code_paths import command_name
from apps.core.counts import counted
from apps.pages.monitoring.degradations import silent_workers_and_beat
from apps.runs.bell import count_messages
from apps.runs.models import Run
from apps.runs.presence import live_processes
from apps.runs.queues import FEDERATION, QUEUES, queue_of

_BROKER_S = 3.0


def check_broker(at: datetime) -> Iterator[str | Finding]:
    kind = str(settings.CELERY_BROKER_URL).partition(":")[0]
    try:
        lengths = count_messages(patience_s=_BROKER_S)
    except Exception as error:  # each broker has errors of its own
        yield f"{kind} doesn't answer"
        message = f"The broker ({kind}) doesn't answer: {type(error).__name__}. Runs wait in the database."
        yield Finding("broker_away", "bad", message, "Start it, or correct CELERY_BROKER_URL: docs/settings.md.")
        return
    yield f"{kind} answers; messages: " + ", ".join(f"{queue} {n}" for queue, n in lengths.items())


def check_workers(at: datetime) -> Iterator[str | Finding]:
    processes = live_processes()
    due = Run.objects.filter(state=Run.State.QUEUED, due_at__lte=at)
    oldest_s: dict[str, float] = {}
    for run_kind, due_at in due.values_list("kind").annotate(oldest=Min("due_at")).order_by():
        queue = queue_of(run_kind)
        oldest_s[queue] = max(oldest_s.get(queue, 0.0), (at - due_at).total_seconds())
    for queue in QUEUES:
        hosts = sorted(process.host for process in processes if queue in process.queues)
        served = f"{counted(len(hosts), 'worker')} on {', '.join(sorted(set(hosts)))}" if hosts else "no worker"
        waiting = f"; the oldest run has waited {oldest_s[queue]:,.0f} s" if queue in oldest_s else ""
        yield f"{queue}: {served}{waiting}"
        if not hosts:
            start = command_name("serve outgoing" if queue == FEDERATION else f"serve worker -Q {queue}")
            remedy = f"Start one: `{start}`. See Processes in docs/operate.md."
            yield Finding("queue_unserved", "bad", f"No worker serves the queue {queue}.", remedy)
    n_beats = sum(process.role == "beat" for process in processes)
    yield f"beat: {counted(n_beats, 'process', 'processes')}"
    if not n_beats:
        message = "No beat is running: nothing starts periodic work."
        yield Finding(
            "beat_missing",
            "bad",
            message,
            f"Start it: `{command_name('serve beat')}`. See Processes in docs/operate.md.",
        )
    for each in silent_workers_and_beat(at):
        who = "Workers are silent, or runs wait" if each["code"] == "workers_silent" else "Beat is silent"
        remedy = (
            "Check the logs of workers and beat, and the broker; start them again. See Processes in docs/operate.md."
        )
        yield Finding(each["code"], "bad", f"{who}: {each['message']}.", remedy)
