"""Periodic tasks that publish scheduled change sets and apply the dates of shares."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from celery import shared_task
from django.conf import settings

from apps.accounts.clock_watch import believed
from apps.core import clock
from apps.policies.changesets.lifecycle import publish_due
from apps.policies.publishing.direct import apply_dates


@shared_task(name="apps.policies.tasks.publish_due_changes")
def publish_due_changes() -> int:
    """Publish change sets that are due; safe to run concurrently. Returns their number."""
    return len(publish_due(at=believed(clock.now())))


@shared_task(name="apps.policies.tasks.apply_dates_of_shares")
def apply_dates_of_shares() -> int:
    """Apply start and end dates of shares that have come; safe to run twice. Returns the number of changes."""
    return len(apply_dates(at=believed(clock.now()), zone=ZoneInfo(settings.TIME_ZONE)))
