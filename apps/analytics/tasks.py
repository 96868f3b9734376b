"""What the schedule rings: each task calls one service and may run twice."""

from __future__ import annotations

from celery import shared_task

from apps.analytics.series import runs
from apps.core import clock


@shared_task(name="apps.analytics.tasks.build_series_stale")
def build_series_stale() -> int:
    """How many daily series lacked a day, or weren't what they would be now."""
    return len(runs.build_series_stale(at=clock.now()))
