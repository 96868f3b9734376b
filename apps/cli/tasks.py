"""Scheduled tasks of an instance as a whole: its backups, and the sample's jobs."""

from __future__ import annotations

from celery import shared_task

from apps.cli.backup.scheduled import back_up_when_due
from apps.cli.sample.living import continue_sample as continue_sample_at
from apps.core import clock


@shared_task(name="apps.cli.tasks.continue_sample")
def continue_sample() -> int:
    """Ingest what the sample's sites have run since; returns the number of jobs. Without a sample it does nothing."""
    return continue_sample_at(at=clock.now())


@shared_task(name="apps.cli.tasks.back_up")
def back_up() -> str:
    """Make the day's backup if it is due; returns its path, or "" without one."""
    return str(back_up_when_due(at=clock.now()) or "")
