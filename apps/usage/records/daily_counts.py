"""What a source delivered on each day, counted in the transaction that stored it."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import connection

from apps.usage.records.clock_skew import CODE as AHEAD
from apps.usage.records.versions import COUNTED, Counts

_COLUMNS = [*(f"n_{name}" for name in COUNTED), "n_ahead"]
_ADD = f"""
INSERT INTO usage_sourceday (source_id, received_on, {", ".join(_COLUMNS)}) VALUES (%s, %s, {", ".join(["%s"] * 7)})
ON CONFLICT (source_id, received_on) DO UPDATE SET
    {", ".join(f"{name} = usage_sourceday.{name} + EXCLUDED.{name}" for name in _COLUMNS)}
"""  # noqa: S608 - constants only


def count_day(source_id: int, counts: Counts, *, n_rejected: int, at: datetime) -> None:
    """`n_rejected`: lines that the reader refused, besides those of `counts`."""
    numbers = {**counts.as_dict(), "rejected": counts.rejected + n_rejected}
    n_ahead = sum(rejection.code == AHEAD for rejection in counts.rejections)
    values = [*(numbers[name] for name in COUNTED), n_ahead]
    if any(values):
        with connection.cursor() as cursor:
            cursor.execute(_ADD, [source_id, at.astimezone(UTC).date(), *values])
