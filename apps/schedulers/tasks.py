"""Scheduled tasks of the schedulers room; safe to run twice."""

from __future__ import annotations

from celery import shared_task

from apps.accounts.clock_watch import believed
from apps.core import clock
from apps.schedulers.passes import prune_passes as prune


@shared_task(name="apps.schedulers.tasks.prune_passes")
def prune_passes() -> int:
    """Delete expired reports of agents; returns their number."""
    return prune(at=believed(clock.now()))
