"""The audit log as files: JSON lines that end with their hash, and a table for a spreadsheet."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from django.http import HttpResponseBase, StreamingHttpResponse

from apps.accounts.models import AuditEvent
from apps.dashboard.audit.filter import Asked
from apps.dashboard.shell.downloads import csv_response
from apps.policies.history.audit_reading import AuditReader

_COLUMNS = (
    "id",
    "at",
    "actor",
    "verb",
    "outcome",
    "policy",
    "entry",
    "subject",
    "reason",
    "details",
    "via",
    "request_id",
    "token",
    "address",
    "hash",
)


def as_lines(reader: AuditReader, wanted: Asked, at: datetime) -> HttpResponseBase:
    """What the list shows, newest first; the last line holds the hash of all before it."""
    response = StreamingHttpResponse(_lines(reader, wanted), content_type="application/x-ndjson")
    response["Content-Disposition"] = f'attachment; filename="audit-{at:%Y-%m-%d}.jsonl"'
    return response


def as_table(reader: AuditReader, wanted: Asked, at: datetime) -> HttpResponseBase:
    """The same as CSV; what the reader may not know stays empty."""
    rows = (_cells(told(event, reader)) for event in _events(reader, wanted))
    return csv_response(f"audit-{at:%Y-%m-%d}.csv", _COLUMNS, rows)


def told(event: AuditEvent, reader: AuditReader) -> dict[str, Any]:
    """A row as JSON, without what the reader may not know."""
    found: dict[str, Any] = {
        "id": event.id,
        "at": event.at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "actor": event.actor_name,
        "verb": event.verb,
        "outcome": event.outcome,
        "policy": event.policy_slug,
        "entry": str(event.entry_uid) if event.entry_uid else None,
        "subject": event.subject,
        "reason": event.reason,
        "details": event.details,
        "via": event.via,
        "hash": bytes(event.hash).hex(),
    }
    if reader.reads_all or reader.is_own(event):
        found |= {"request_id": event.request_id, "token": event.token_prefix}
    if reader.reads_all:
        found |= {"address": event.address, "previous_hash": bytes(event.previous_hash).hex()}
    return found


def _events(reader: AuditReader, wanted: Asked) -> Iterator[AuditEvent]:
    return reader.every(wanted.filter) if wanted.has_entry else iter(())


def _lines(reader: AuditReader, wanted: Asked) -> Iterator[bytes]:
    digest, n = hashlib.sha256(), 0
    for each in _events(reader, wanted):
        line = json.dumps(told(each, reader), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        digest.update(line)
        n += 1
        yield line
    yield json.dumps({"rows": n, "sha256_of_the_lines_above": digest.hexdigest()}).encode() + b"\n"


def _cells(row: dict[str, Any]) -> list[Any]:
    row = {**row, "details": json.dumps(row["details"], ensure_ascii=False) if row["details"] else ""}
    return ["" if row.get(name) is None else row[name] for name in _COLUMNS]
