"""Scheduled tasks of the usage room: each calls one service and may run twice."""

from __future__ import annotations

from celery import shared_task

from apps.accounts.clock_watch import believed
from apps.core import clock
from apps.usage.records.retention import enqueue_retention
from apps.usage.sources import open_listings, schedule


@shared_task(name="apps.usage.tasks.remove_old_records")
def remove_old_records() -> bool:
    """Start the removal of records past their retention; returns whether there are any."""
    return enqueue_retention(at=believed(clock.now())) is not None


@shared_task(name="apps.usage.tasks.collect_due_usage")
def collect_due_usage() -> int:
    """Start the collection of all due sources; returns their number."""
    return schedule.enqueue_due_collections(at=clock.now())


@shared_task(name="apps.usage.tasks.close_silent_jobs")
def close_silent_jobs() -> int:
    """Close open jobs of sources without contact; returns the number of jobs."""
    return open_listings.close_silent_jobs(at=believed(clock.now()))
