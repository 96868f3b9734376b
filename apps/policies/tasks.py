"""What the clock puts in force."""

from __future__ import annotations

from celery import shared_task

from apps import clock
from apps.policies.reviewing import publish_due


@shared_task(name="apps.policies.tasks.publish_due_changes")
def publish_due_changes() -> int:
    """Change sets whose time has come; safe to run twice and at the same time."""
    return len(publish_due(at=clock.now()))
