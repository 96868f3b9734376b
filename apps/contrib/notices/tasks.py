"""Scheduled tasks; each calls one service and is safe to run twice."""

from __future__ import annotations

from celery import shared_task

from apps.accounts.clock_watch import believed
from apps.contrib.notices import digests, webhook_calls
from apps.contrib.notices.evaluation import evaluate
from apps.contrib.notices.statements.month_close import close_months
from apps.core import clock


@shared_task(name="apps.contrib.notices.tasks.evaluate_notices")
def evaluate_notices() -> int:
    """Returns how many notices were opened."""
    return evaluate(at=clock.now())


@shared_task(name="apps.contrib.notices.tasks.send_notices")
def send_notices() -> None:
    """Plan messages and deliveries, and start the runs that send them: by the worker for other hosts."""
    at = clock.now()
    digests.plan_mails(at=at)
    webhook_calls.plan_deliveries(at=at)
    digests.request_mails(at=at)
    webhook_calls.request_calls(at=at)


@shared_task(name="apps.contrib.notices.tasks.close_statements")
def close_statements() -> int:
    """Returns how many statements were stored."""
    return close_months(at=believed(clock.now()))
