"""Publishes scheduled change sets when they are due."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from celery import shared_task
from django.conf import settings

from apps.core import clock
from apps.policies.changesets.lifecycle import publish_due
from apps.policies.publishing.direct import apply_dates


@shared_task(name="apps.policies.tasks.publish_due_changes")
def publish_due_changes() -> int:
    """Change sets whose time has come; safe to run twice and at the same time."""
    return len(publish_due(at=clock.now()))


@shared_task(name="apps.policies.tasks.apply_dates_of_shares")
def apply_dates_of_shares() -> int:
    """Shares that begin or end today; safe to run twice."""
    return len(apply_dates(at=clock.now(), zone=ZoneInfo(settings.TIME_ZONE)))
