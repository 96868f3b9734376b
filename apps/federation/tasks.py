"""What the schedule rings: each task calls one service and may run twice."""

from __future__ import annotations

from celery import shared_task

from apps.core import clock
from apps.federation.fetch_schedule import ask_for_due


@shared_task(name="apps.federation.tasks.fetch_due_mounts")
def fetch_due_mounts() -> int:
    """How many mounts were asked for."""
    return ask_for_due(at=clock.now())
