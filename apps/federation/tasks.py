"""Scheduled tasks; each calls one service and is safe to run twice."""

from __future__ import annotations

from celery import shared_task

from apps.core import clock
from apps.federation.document_builds import request_due_builds
from apps.federation.fetch_schedule import request_due_fetches


@shared_task(name="apps.federation.tasks.fetch_due_mounts")
def fetch_due_mounts() -> int:
    """Request all due fetches; return their number."""
    return request_due_fetches(at=clock.now())


@shared_task(name="apps.federation.tasks.build_due_documents")
def build_due_documents() -> int:
    """Request the builds of publications and feeds that are no longer current; return their number."""
    return request_due_builds(at=clock.now())
