"""The log of who did what: one row each, numbered without gaps, each carrying the hash of the one before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from apps.accounts.actor import Actor
from apps.accounts.models import AuditEvent

FIRST_HASH = b"\0" * 32
FIELDS = (
    "id",
    "at",
    "actor_id",
    "actor_name",
    "verb",
    "outcome",
    "policy_slug",
    "entry_uid",
    "subject",
    "reason",
    "details",
    "via",
    "request_id",
    "address",
    "token_prefix",
)
_LOCK = 0x66736861_75646974  # "fshaudit": one writer at a time, or two rows would follow the same one
_JSON = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))
_WRITTEN_OUT = 1e16  # from here on JSON writes a float with an exponent, and the database all its digits


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
    """Append one event in the caller's transaction, so that action and row commit together.

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
            details=_as_stored(json.loads(json.dumps(details or {}, default=str))),
            via=actor.via,
            request_id=actor.request_id[:64],
            address=_plain_address(actor.address),
            token_prefix=actor.token.prefix if actor.token else "",
            previous_hash=bytes(last[1]),
        )
        event.hash = hash_of(event)
        event.save(force_insert=True)
    return event


def _as_stored(value: Any) -> Any:
    """As the database will give it back, so that the hash is of that: it keeps 1e20 as a whole number, and no −0.0."""
    if isinstance(value, float):
        return int(value) if abs(value) >= _WRITTEN_OUT else value + 0.0
    if isinstance(value, dict):
        return {key: _as_stored(each) for key, each in value.items()}
    return [_as_stored(each) for each in value] if isinstance(value, list) else value


def _plain_address(address: str | None) -> str | None:
    """In the one form that the database writes too; an IPv4 address in IPv6 clothes is that IPv4 address."""
    if not address:
        return None
    found = ip_address(address)
    return str(getattr(found, "ipv4_mapped", None) or found)


def hash_of(event: AuditEvent) -> bytes:
    """SHA-256 of the previous hash and of every other field, as JSON with sorted keys."""
    fields = {name: getattr(event, name) for name in FIELDS}
    fields["at"] = event.at.astimezone(UTC).isoformat(timespec="microseconds")
    fields["outcome"] = str(event.outcome)
    for name in ("entry_uid", "address"):
        fields[name] = str(fields[name]) if fields[name] else None
    return digest_of(bytes(event.previous_hash), fields)


def digest_of(previous: bytes, fields: dict[str, Any]) -> bytes:
    """The detail as JSON: instants and entries as text."""
    return hashlib.sha256(previous + _JSON.encode(fields).encode()).digest()
