"""Periodic task that applies membership rules."""

from __future__ import annotations

from celery import shared_task

from apps.core import clock
from apps.mapping import membership_plan as membership


@shared_task(name="apps.mapping.tasks.apply_rules_for_members")
def apply_rules_for_members() -> int:
    """Apply membership rules; safe to run concurrently. Returns the number of changed policies."""
    return len(membership.apply_membership_rules(at=clock.now()))
