"""What the schedule rings: each task calls one service and may run twice."""

from __future__ import annotations

from celery import shared_task

from apps.core import clock
from apps.priorities import snapshots
from apps.priorities.recompute import staleness as recompute


@shared_task(name="apps.priorities.tasks.recompute_stale")
def recompute_stale() -> int:
    """How many policies were out of date."""
    return len(recompute.recompute_stale(at=clock.now()))


@shared_task(name="apps.priorities.tasks.prune_snapshots")
def prune_snapshots() -> int:
    """How many snapshots were deleted."""
    return snapshots.prune_snapshots(at=clock.now())
