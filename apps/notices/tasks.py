"""What the schedule rings: each task calls one service and may run twice."""

from __future__ import annotations

from celery import shared_task

from apps import clock
from apps.notices.evaluating import evaluate


@shared_task(name="apps.notices.tasks.evaluate_notices")
def evaluate_notices() -> int:
    """How many notices were opened."""
    return evaluate(at=clock.now())
