"""Periodic tasks of this plug-in. Each calls one service and may run twice."""

from __future__ import annotations

from celery import shared_task

from apps.accounts.clock_watch import believed
from apps.contrib.lab.advisor.runs import request_monthly
from apps.core import clock


@shared_task(name="apps.contrib.lab.tasks.renew_advice")
def renew_advice() -> int:
    """Return for how many policies advice was asked."""
    return request_monthly(at=believed(clock.now()))
