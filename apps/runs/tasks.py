"""Scheduled tasks for working on runs; safe to run twice, late or concurrently."""

from __future__ import annotations

from celery import shared_task

from apps.core import clock
from apps.runs import bell, services, workers


@shared_task(name=bell.TASK)
def work_runs() -> int:
    """Work on runs until none is due."""
    workers.record_contact(clock.now())
    return services.work_due_runs(clock=clock.now)


@shared_task(name=workers.OUTGOING_TASK)
def work_outgoing_runs() -> int:
    """Work on runs that call other hosts until none is due; from a queue of its own."""
    return services.work_due_runs(clock=clock.now, is_outgoing=True)


@shared_task(name="apps.runs.tasks.sweep_runs")
def sweep_runs() -> bool:
    """Fail lost runs, and wake workers if a run is due and unclaimed; returns whether one is."""
    at = clock.now()
    workers.record_contact(at)
    services.fail_lost_runs(at=at)
    return services.wake_for_due_runs(at=at)
