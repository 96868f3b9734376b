"""The doorbell's other end. Both tasks are safe to run twice, late, or at the same time."""

from __future__ import annotations

from celery import shared_task

from apps.core import clock
from apps.runs import services, workers


@shared_task(name=services.TASK)
def work_runs() -> int:
    """Work until nothing is due."""
    workers.note_contact(clock.now())
    return services.work_due_runs(clock=clock.now)


@shared_task(name="apps.runs.tasks.sweep_runs")
def sweep_runs() -> bool:
    """Wake workers when a due run is unclaimed."""
    at = clock.now()
    workers.note_contact(at)
    services.find_lost(at=at)
    is_due = services.is_any_due(at=at)
    if is_due:
        services.ring()
    return is_due
