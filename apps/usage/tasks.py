"""What the schedule rings: each task calls one service and may run twice."""

from __future__ import annotations

from celery import shared_task

from apps.core import clock
from apps.usage.records.retention import ask_for_retention
from apps.usage.sources.collection import ask_for_due, close_silent


@shared_task(name="apps.usage.tasks.let_records_go")
def let_records_go() -> bool:
    """Whether there are records older than they are kept for."""
    return ask_for_retention(at=clock.now()) is not None


@shared_task(name="apps.usage.tasks.collect_due_usage")
def collect_due_usage() -> int:
    """How many sources were asked for."""
    return ask_for_due(at=clock.now())


@shared_task(name="apps.usage.tasks.close_silent_jobs")
def close_silent_jobs() -> int:
    """How many open jobs of silent sources were closed."""
    return close_silent(at=clock.now())
