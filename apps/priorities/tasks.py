"""Celery tasks of the schedule. Each calls one service and is safe to run twice."""

from __future__ import annotations

from celery import shared_task

from apps.core import clock
from apps.priorities import snapshot_retention
from apps.priorities.recompute import staleness as recompute


@shared_task(name="apps.priorities.tasks.recompute_stale")
def recompute_stale() -> int:
    """Enqueue recomputes; return the number of policies that were out of date."""
    return len(recompute.recompute_stale(at=clock.now()))


@shared_task(name="apps.priorities.tasks.prune_snapshots")
def prune_snapshots() -> int:
    """Delete old snapshots; return their number."""
    return snapshot_retention.prune_snapshots(at=clock.now())
