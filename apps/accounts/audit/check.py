"""Verification of the log: each row against its hash, the row before, and earlier checks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from apps.accounts.audit.log import FIELDS, FIRST_HASH, digest_of
from apps.accounts.models import AuditCheck

_CHUNK = 5_000
_DETAILS = FIELDS.index("details")
# Formatted by the server as the hash has it: a million instants take Python longer than everything else.
_AS_TEXT = {
    "at": """to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US') || '+00:00'""",
    "entry_uid": "entry_uid::text",
    "details": "details::text",
    "address": "host(address)",
}
Row = tuple[Any, ...]  # FIELDS, then the hash before and the own one


@dataclass(frozen=True)
class Verdict:
    """Rows that hold, the hash of the last of them, and the first that doesn't, with what is wrong with it."""

    n_rows: int
    head_hash: bytes
    broken_id: int | None = None
    problem: str = ""
    key: str = ""  # of the problem: missing, unlinked, changed, rewritten or cut_off


def check_chain(*, at: datetime) -> AuditCheck:
    """Check all of it, and store the result, for the page and for later checks."""
    begun = time.monotonic()
    with transaction.atomic():
        verdict = verify(_rows(), _earlier())
    return AuditCheck.objects.create(
        checked_at=at,
        duration_s=time.monotonic() - begun,
        n_rows=verdict.n_rows,
        head_hash=verdict.head_hash,
        broken_id=verdict.broken_id,
        problem=verdict.problem,
    )


def last_check() -> AuditCheck | None:
    return AuditCheck.objects.order_by("-pk").first()


def verify(rows: Iterable[Row], earlier: dict[int, tuple[bytes, datetime]]) -> Verdict:
    """Rows in order from the first. earlier: by number of rows, the hash that the last of them had, and when."""
    n, previous = 0, FIRST_HASH
    for row in rows:
        key, problem = _problem(row, n + 1, previous)
        if problem:
            return Verdict(n, previous, n + 1, problem, key)
        n, previous = n + 1, bytes(row[-1])
        seen = earlier.get(n)
        if seen is not None and seen[0] != previous:
            when = seen[1].isoformat(timespec="seconds")
            problem = f"row {n} isn't the one that was there on {when}: the log was rewritten"
            return Verdict(n - 1, bytes(row[-2]), n, problem, "rewritten")
    longest = max(earlier, default=0)
    if longest > n:
        when = earlier[longest][1].isoformat(timespec="seconds")
        problem = f"row {n + 1} is missing: there were {longest:,} rows on {when}"
        return Verdict(n, previous, n + 1, problem, "cut_off")
    return Verdict(n, previous)


def _problem(row: Row, expected_id: int, previous: bytes) -> tuple[str, str]:
    """Its key and a sentence; both empty for a row that holds."""
    if row[0] != expected_id:
        return "missing", f"row {expected_id} is missing: row {row[0]} comes in its place"
    if bytes(row[-2]) != previous:
        return "unlinked", f"row {expected_id} doesn't follow the one before: it names another hash"
    if bytes(row[-1]) != digest_of(previous, dict(zip(FIELDS, row, strict=False))):
        return "changed", f"row {expected_id} was changed: it doesn't say what its hash was made of"
    return "", ""


def _rows() -> Iterator[Row]:
    """From the server in chunks: a long log isn't held in memory."""
    columns = ", ".join(_AS_TEXT.get(name, name) for name in FIELDS)
    with connection.chunked_cursor() as cursor:
        cursor.execute(f"SELECT {columns}, previous_hash, hash FROM accounts_auditevent ORDER BY id")  # noqa: S608 - names of ours
        while some := cursor.fetchmany(_CHUNK):
            for row in some:
                details = row[_DETAILS]
                yield *row[:_DETAILS], {} if details == "{}" else json.loads(details), *row[_DETAILS + 1 :]


def _earlier() -> dict[int, tuple[bytes, datetime]]:
    """Checks that passed; of many on as many rows the first."""
    found: dict[int, tuple[bytes, datetime]] = {}
    rows = AuditCheck.objects.filter(broken_id=None, n_rows__gt=0).order_by("pk")
    for n_rows, head_hash, checked_at in rows.values_list("n_rows", "head_hash", "checked_at").iterator():
        found.setdefault(n_rows, (bytes(head_hash), checked_at))
    return found
