"""Scheduled tasks of the local stack."""

from __future__ import annotations

from celery import shared_task

from apps.cli.sample.living import continue_sample as continue_sample_at
from apps.core import clock


@shared_task(name="apps.cli.tasks.continue_sample")
def continue_sample() -> int:
    """Ingest what the sample's sites have run since; returns the number of jobs. Without a sample it does nothing."""
    return continue_sample_at(at=clock.now())
