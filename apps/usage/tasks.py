"""Scheduled tasks of the usage room: each calls one service and may run twice."""

from __future__ import annotations

from celery import shared_task

from apps.core import clock
from apps.usage.records.retention import ask_for_retention
from apps.usage.sources.collection import ask_for_due, close_silent


@shared_task(name="apps.usage.tasks.let_records_go")
def let_records_go() -> bool:
    """Start the removal of records past their retention; returns whether there are any."""
    return ask_for_retention(at=clock.now()) is not None


@shared_task(name="apps.usage.tasks.collect_due_usage")
def collect_due_usage() -> int:
    """Start the collection of all due sources; returns their number."""
    return ask_for_due(at=clock.now())


@shared_task(name="apps.usage.tasks.close_silent_jobs")
def close_silent_jobs() -> int:
    """Close open jobs of sources without contact; returns the number of jobs."""
    return close_silent(at=clock.now())
