"""What the schedule rings: each task calls one service and may run twice."""

from __future__ import annotations

from celery import shared_task

from apps.core import clock
from apps.schedulers.passes import prune_passes as prune


@shared_task(name="apps.schedulers.tasks.prune_passes")
def prune_passes() -> int:
    """How many reports of agents were past their time."""
    return prune(at=clock.now())
