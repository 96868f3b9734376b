"""How late a source is: by one measure for pages, notices, readiness and metrics."""

from __future__ import annotations

from datetime import datetime

from apps.usage.models import Source

LATE_INTERVALS = 2  # one may be missed


def lateness(source: Source, at: datetime) -> float | None:
    """Age of the newest record in expected intervals; None without an interval. Above LATE_INTERVALS it is late.

    A source without records is as old as itself.
    """
    if not source.expected_every_s:
        return None
    return (at - (source.last_record_end_at or source.created_at)).total_seconds() / source.expected_every_s
