"""Periodic tasks of the room. Each calls one service and may run twice."""

from __future__ import annotations

from celery import shared_task

from apps.accounts.clock_watch import believed
from apps.core import clock
from apps.series import runs


@shared_task(name="apps.series.tasks.build_series_stale")
def build_series_stale() -> int:
    """Enqueue a build for each daily series that is incomplete or out of date; return their number."""
    return len(runs.build_series_stale(at=believed(clock.now())))
