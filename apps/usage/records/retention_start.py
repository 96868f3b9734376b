"""From which day on the records of a source are retained."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.conf import settings

from apps.usage.models import Source

_DAY = timedelta(days=1)


def retention_start(source: Source, at: datetime) -> datetime | None:
    """Start (UTC) of the oldest day whose records are retained; None if all are."""
    days = settings.FAIRSHARE_KEEP_RECORDS_DAYS if source.keep_records_days is None else source.keep_records_days
    if not days:
        return None
    return datetime.combine((at - days * _DAY).astimezone(UTC).date(), datetime.min.time(), UTC)
