"""The task that works on a run, and the sweep for runs whose message was lost; safe to run twice or late."""

from __future__ import annotations

from celery import shared_task

from apps.core import clock
from apps.runs import bell, services, workers
from apps.runs.queues import FEDERATION, queue_of


@shared_task(name=bell.TASK)
def work_run(run_id: int, kind: str) -> bool:
    """Work on this run, if it waits for nothing; returns whether it did. kind: as lists of tasks show it."""
    if queue_of(kind) != FEDERATION:
        workers.record_contact(clock.now())
    return services.work_run(run_id, kind, clock=clock.now)


@shared_task(name="apps.runs.tasks.sweep_runs")
def sweep_runs() -> bool:
    """Fail lost runs, and send those that are due and unclaimed; returns whether one is."""
    at = clock.now()
    workers.record_contact(at)
    return services.send_due_runs(at=at)
