"""Checking an audit log of 200,000 rows, and in `make bench-large` one of 1,000,000.

The anchor is reading the same rows through the same cursor and throwing them away. What comes on top is the check.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from bench.clock import processor_s
from bench.report import BenchLine

N_ROWS, N_LARGE = 200_000, 1_000_000
LONGEST_S = 60.0  # for a million
_BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


def measure() -> BenchLine:
    return _measure(N_ROWS)


def measure_large() -> BenchLine:
    return _measure(N_LARGE)


def _measure(n_rows: int) -> BenchLine:
    from django.db import connection, transaction

    from apps.accounts.audit_log import FIELDS, _rows, check_chain
    from apps.core.clock import now

    columns = (*FIELDS, "previous_hash", "hash")
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY accounts_auditevent ({', '.join(columns)}) FROM STDIN") as to,
    ):
        for row in _chain(n_rows):
            to.write_row(row)

    def read() -> None:
        with transaction.atomic():
            for _ in _rows():
                pass

    anchor_s = min(processor_s(read) for _ in range(2))
    check = check_chain(at=now())
    assert check.broken_id is None, check.problem
    assert check.n_rows == n_rows
    allowed_s = LONGEST_S * n_rows / N_LARGE
    return BenchLine(
        f"audit log of {n_rows:,} rows checked / {allowed_s:g} s",
        check.duration_s / allowed_s,
        1.0,
        f"{check.duration_s:.1f} s, {check.duration_s / anchor_s:.1f} × reading alone",
    )


def _chain(n_rows: int) -> Iterator[tuple[Any, ...]]:
    from apps.accounts.audit_log import FIELDS, FIRST_HASH, digest_of

    previous = FIRST_HASH
    for n in range(1, n_rows + 1):
        details: dict[str, Any] = {
            "revision": n,
            "operations": [{"op": "set_shares", "entry": str(UUID(int=n % 5_000))}],
        }
        at = (_BEGUN + timedelta(seconds=n)).isoformat(timespec="microseconds")
        values = (
            n,
            at,
            n % 40,
            f"person{n % 40}",
            "policy.published",
            "done",
            "grid",
            str(UUID(int=n % 5_000)),
            f"grid revision {n}",
            "As agreed with the council.",
            details,
            "page",
            f"r{n}",
            "192.0.2.7",
            "",
        )
        own = digest_of(previous, dict(zip(FIELDS, values, strict=True)))
        yield (*(json.dumps(value) if isinstance(value, dict) else value for value in values), previous, own)
        previous = own
