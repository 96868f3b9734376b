"""What the schedule rings: each task calls one service and may run twice."""

from __future__ import annotations

from celery import shared_task

from apps.core import clock
from apps.mapping import membership_plan as membership


@shared_task(name="apps.mapping.tasks.apply_rules_for_members")
def apply_rules_for_members() -> int:
    """In how many policies a rule added, restored or archived members; safe to run twice and concurrently."""
    return len(membership.apply_members(at=clock.now()))
