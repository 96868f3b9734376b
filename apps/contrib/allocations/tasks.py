"""The periodic task by which rules of allocations act."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from celery import shared_task
from django.conf import settings

from apps.accounts.clock_watch import believed
from apps.contrib.allocations.rules.acting import act_on_rules
from apps.core import clock


@shared_task(name="apps.contrib.allocations.tasks.act_on_allocation_rules")
def act_on_allocation_rules() -> int:
    """Take the steps of rules that are on; safe to run twice and at the same time. Returns their number."""
    return len(act_on_rules(at=believed(clock.now()), zone=ZoneInfo(settings.TIME_ZONE)))
