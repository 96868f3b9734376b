"""Scheduled tasks of an instance as a whole: its backups, and the sample's jobs."""

from __future__ import annotations

import logging

from celery import shared_task

from apps.cli.backup.scheduled import back_up_when_due
from apps.cli.sample.living import continue_sample as continue_sample_at
from apps.core import clock
from apps.core.disk_space import disk_full_message
from apps.core.errors import DomainError

logger = logging.getLogger(__name__)


@shared_task(name="apps.cli.tasks.continue_sample")
def continue_sample() -> int:
    """Ingest what the sample's sites have run since; returns the number of jobs. Without a sample it does nothing."""
    return continue_sample_at(at=clock.now())


@shared_task(name="apps.cli.tasks.back_up")
def back_up() -> str:
    """Make the day's backup if it is due; returns its path, or "" without one. A failure is logged in a sentence."""
    try:
        return str(back_up_when_due(at=clock.now()) or "")
    except (DomainError, OSError) as error:
        logger.error("The backup by schedule failed: %s", disk_full_message(error) or error)
        return ""
