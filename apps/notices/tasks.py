"""What the schedule rings: each task calls one service and may run twice."""

from __future__ import annotations

from celery import shared_task

from apps.core import clock
from apps.notices import digests, webhook_calls
from apps.notices.evaluation import evaluate
from apps.notices.statements.month_close import close_months


@shared_task(name="apps.notices.tasks.evaluate_notices")
def evaluate_notices() -> int:
    """How many notices were opened."""
    return evaluate(at=clock.now())


@shared_task(name="apps.notices.tasks.send_notices")
def send_notices() -> int:
    """How many messages and deliveries went out."""
    at = clock.now()
    digests.plan_mails(at=at)
    webhook_calls.plan_deliveries(at=at)
    return digests.send_mails(at=at) + webhook_calls.call_due(at=at)


@shared_task(name="apps.notices.tasks.close_statements")
def close_statements() -> int:
    """How many statements were kept."""
    return close_months(at=clock.now())
