"""The log of who did what: one row each, numbered without gaps, each carrying the hash of the one before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from apps.accounts.actor import Actor
from apps.accounts.models import AuditEvent
from apps.errors import NotFound

FIRST_HASH = b"\0" * 32
_LOCK = 0x66736861_75646974  # "fshaudit": one writer at a time, or two rows would follow the same one
_MOST = 200


def record(
    *,
    actor: Actor,
    verb: str,
    at: datetime,
    policy_slug: str = "",
    entry_uid: UUID | None = None,
    subject: str = "",
    reason: str = "",
    details: Mapping[str, Any] | None = None,
    outcome: str = AuditEvent.Outcome.DONE,
) -> AuditEvent:
    """Append one event in the caller's transaction, so that the deed and its row stand or fall together.

    Call it late in the transaction: the chain is locked from here to the commit.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        last = AuditEvent.objects.order_by("-id").values_list("id", "hash").first() or (0, FIRST_HASH)
        event = AuditEvent(
            id=last[0] + 1,
            at=at,
            actor_id=actor.user.pk if actor.user else None,
            actor_name=actor.name,
            verb=verb,
            outcome=outcome,
            policy_slug=policy_slug,
            entry_uid=entry_uid,
            subject=subject[:512],
            reason=reason,
            details=json.loads(json.dumps(details or {}, default=str)),
            via=actor.via,
            request_id=actor.request_id[:64],
            address=actor.address,
            token_prefix=actor.token.prefix if actor.token else "",
            previous_hash=bytes(last[1]),
        )
        event.hash = hash_of(event)
        event.save(force_insert=True)
    return event


def hash_of(event: AuditEvent) -> bytes:
    """SHA-256 of the previous hash and of every other field, as JSON with sorted keys."""
    fields = {
        "id": event.id,
        "at": event.at.astimezone(UTC).isoformat(timespec="microseconds"),
        "actor_id": event.actor_id,
        "actor_name": event.actor_name,
        "verb": event.verb,
        "outcome": str(event.outcome),
        "policy_slug": event.policy_slug,
        "entry_uid": str(event.entry_uid) if event.entry_uid else None,
        "subject": event.subject,
        "reason": event.reason,
        "details": event.details,
        "via": event.via,
        "request_id": event.request_id,
        "address": str(event.address) if event.address else None,
        "token_prefix": event.token_prefix,
    }
    text = json.dumps(fields, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(bytes(event.previous_hash) + text.encode()).digest()


def first_broken(events: Iterable[AuditEvent]) -> int | None:
    """The id at which the chain, given in order from its first event, doesn't hold; None when it does."""
    expected_id, previous = 1, FIRST_HASH
    for event in events:
        unbroken = event.id == expected_id and bytes(event.previous_hash) == previous
        if not unbroken or bytes(event.hash) != hash_of(event):
            return expected_id
        expected_id, previous = event.id + 1, bytes(event.hash)
    return None


def list_events(
    *,
    actor: Actor,
    policy_slug: str | None = None,
    entry_uid: UUID | None = None,
    verb: str | None = None,
    before_id: int | None = None,
    limit: int = 50,
) -> list[AuditEvent]:
    """Newest first. Only administrators read the whole log; others see what they did themselves."""
    events = AuditEvent.objects.order_by("-id")
    if not actor.is_admin:
        if actor.user is None or not actor.has_scope("self:read"):
            raise NotFound("There is no such log.")
        events = events.filter(actor_id=actor.user.pk)
    if policy_slug is not None:
        events = events.filter(policy_slug=policy_slug)
    if entry_uid is not None:
        events = events.filter(entry_uid=entry_uid)
    if verb is not None:
        events = events.filter(verb=verb)
    if before_id is not None:
        events = events.filter(id__lt=before_id)
    return list(events[: min(limit, _MOST)])
