"""Scheduled tasks; each calls one service and is safe to run twice."""

from __future__ import annotations

from celery import shared_task

from apps.core import clock
from apps.federation.fetch_schedule import request_due_fetches


@shared_task(name="apps.federation.tasks.fetch_due_mounts")
def fetch_due_mounts() -> int:
    """Request all due fetches; return their number."""
    return request_due_fetches(at=clock.now())
