"""First answers to requests with an Idempotency-Key, so that a repeated request is answered and not done again."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from apps.accounts.models import IdempotentAnswer
from apps.core.errors import Conflict

KEPT = timedelta(days=30)
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


def first_answer(*, scope: str, key: str, body_sha256: str, at: datetime) -> Any | None:
    """The answer to the first request with this key, or None; in a transaction, which repeats of it wait for.

    scope: whose keys these are, and for what.

    Raises:
        Conflict: the key came with another body (`idempotency_key_reused`).
    """
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [f"{scope}\n{key}"])
    first = IdempotentAnswer.objects.filter(scope=scope, key=key, created_at__gte=at - KEPT).first()
    if first is None:
        return None
    if first.body_sha256 != body_sha256:
        raise Conflict(
            "This Idempotency-Key was used for another body: take a new key for a new request.",
            code="idempotency_key_reused",
        )
    return first.answer


def keep_answer(*, scope: str, key: str, body_sha256: str, answer: Any, at: datetime) -> None:
    """In the transaction of what it answers. Those past their time go."""
    IdempotentAnswer.objects.filter(created_at__lt=at - KEPT).delete()
    IdempotentAnswer.objects.create(scope=scope, key=key, body_sha256=body_sha256, answer=answer, created_at=at)
