"""Store answers to requests with an Idempotency-Key, so that a repeated request gets the same answer without effect."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from apps.accounts.clock_watch import believed
from apps.accounts.models import IdempotentAnswer
from apps.core.errors import Conflict

KEPT = timedelta(days=30)
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


def get_stored_answer(*, scope: str, key: str, body_sha256: str, at: datetime) -> Any | None:
    """The stored answer for this key, or None. Concurrent requests with the same key wait for the caller's transaction.

    scope: owner and purpose of the keys.

    Raises:
        Conflict: the key was used with another body (`idempotency_key_reused`).
    """
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [f"{scope}\n{key}"])
    first = IdempotentAnswer.objects.filter(scope=scope, key=key).first()
    if first is None or (first.created_at < at - KEPT and first.created_at < believed(at) - KEPT):
        return None
    if first.body_sha256 != body_sha256:
        raise Conflict(
            "This Idempotency-Key was used for another body: use a new key for a new request.",
            code="idempotency_key_reused",
        )
    return first.answer


def store_answer(*, scope: str, key: str, body_sha256: str, answer: Any, at: datetime) -> None:
    """Store an answer in the transaction of the request, and delete expired ones."""
    if IdempotentAnswer.objects.filter(created_at__lt=at - KEPT).exists():
        IdempotentAnswer.objects.filter(created_at__lt=believed(at) - KEPT).delete()
    IdempotentAnswer.objects.create(scope=scope, key=key, body_sha256=body_sha256, answer=answer, created_at=at)
