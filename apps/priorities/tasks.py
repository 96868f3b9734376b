"""What the schedule rings: each task calls one service and may run twice."""

from __future__ import annotations

from celery import shared_task

from apps.analytics.series import runs
from apps.core import clock
from apps.mapping.membership import plan as membership
from apps.priorities.recompute import staleness as recompute
from apps.priorities.snapshots import retention


@shared_task(name="apps.priorities.tasks.recompute_stale")
def recompute_stale() -> int:
    """How many policies were out of date."""
    return len(recompute.recompute_stale(at=clock.now()))


@shared_task(name="apps.priorities.tasks.prune_snapshots")
def prune_snapshots() -> int:
    """How many snapshots were let go."""
    return retention.prune_snapshots(at=clock.now())


@shared_task(name="apps.priorities.tasks.apply_rules_for_members")
def apply_rules_for_members() -> int:
    """In how many policies somebody joined, came back or was archived by rule; safe to run twice and at once."""
    return len(membership.apply_members(at=clock.now()))


@shared_task(name="apps.priorities.tasks.build_series_stale")
def build_series_stale() -> int:
    """How many daily series lacked a day, or weren't what they would be now."""
    return len(runs.build_series_stale(at=clock.now()))
