"""Scheduled tasks of the accounts room."""

from __future__ import annotations

import logging

from celery import shared_task

from apps.accounts.audit_log import check_chain
from apps.accounts.sign_in.passwords import send_resets
from apps.accounts.sign_in.sessions import delete_expired
from apps.core import clock

logger = logging.getLogger(__name__)


@shared_task(name="apps.accounts.tasks.verify_audit")
def verify_audit() -> int:
    """Verify the audit log; returns the number of valid rows. A failure is logged and displayed."""
    check = check_chain(at=clock.now())
    if check.broken_id is not None:
        logger.error("The audit log is broken: %s.", check.problem)
    return check.n_rows


@shared_task(name="apps.accounts.tasks.send_password_resets")
def send_password_resets() -> int:
    """Send links for new passwords that are due; returns their number. It waits for the mail server, another host."""
    return send_resets(at=clock.now())


@shared_task(name="apps.accounts.tasks.clear_sessions")
def clear_sessions() -> None:
    """Delete expired sessions."""
    delete_expired(at=clock.now())
