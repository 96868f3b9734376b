"""Scheduled tasks of the schedulers room; safe to run twice."""

from __future__ import annotations

from celery import shared_task

from apps.contrib.schedulers.following import propose_followed
from apps.contrib.schedulers.passes import prune_passes as prune
from apps.core import clock


@shared_task(name="apps.contrib.schedulers.tasks.prune_passes")
def prune_passes() -> int:
    """Delete expired reports of agents; returns their number."""
    return prune(at=clock.now())


@shared_task(name="apps.contrib.schedulers.tasks.follow_schedulers")
def follow_schedulers() -> int:
    """Propose accounts and users of schedulers that are set so; returns the number of open drafts of them."""
    return propose_followed(at=clock.now())
