"""Rows and bytes of the database by kind of data, and their projection for a year at the rate of the last 30 days.

The rate is that of when things happened, not of when they were received: an import of old logs is no growth of a day.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, models
from django.db.models import Count, Max, Min

from apps.accounts.models import AuditEvent
from apps.core.sizes import in_shown_unit
from apps.priorities.models import Snapshot, StoredPlaces
from apps.priorities.snapshot_retention import ALL_FOR, DAILY_FOR, HOURLY_FOR
from apps.series.models import Series, SeriesDay, SeriesSlot, SeriesTile
from apps.usage.models import Bucket, Record, Source

SAMPLE_PERIOD = timedelta(days=30)
LEAST_PERIOD = timedelta(days=7)  # the first day of a site is not multiplied by 365
_DAY = timedelta(days=1)
_SNAPSHOTS = tuple(model._meta.db_table for model in (Snapshot, StoredPlaces))
_SERIES = tuple(model._meta.db_table for model in (Series, SeriesDay, SeriesSlot, SeriesTile))


@dataclass(frozen=True, slots=True)
class Holding:
    """Rows of one kind of data, with their indexes; the projection covers predictable growth only."""

    name: str
    n_rows: int
    n_bytes: int
    n_rows_in_a_year: int
    bytes_in_a_year: int


def list_holdings(*, at: datetime) -> list[Holding]:
    """List holdings, largest in a year first; "rest" sums all other tables."""
    sizes = _table_sizes()
    known = [_records(sizes, at), _buckets(sizes, at), _snapshots(sizes, at), _series(sizes), _audit(sizes, at)]
    named = ("usage_record", "usage_bucket", *_SNAPSHOTS, AuditEvent._meta.db_table, *_SERIES)
    rest = sum(size for table, size in sizes.items() if table not in named)
    holdings = [*known, Holding("rest", 0, rest, 0, rest)]
    return sorted(holdings, key=lambda holding: -holding.bytes_in_a_year)


def files_holding() -> Holding:
    """Unfinished uploads, copies of snapshots for a start without database, and large trees."""
    folder = Path(settings.VAR)
    sizes = []
    for path in chain(*((folder / name).glob("**/*") for name in ("uploads", "snapshots", "trees"))):
        with suppress(FileNotFoundError):  # removed meanwhile
            sizes.append(path.stat().st_size)
    return Holding("files", len(sizes), sum(sizes), len(sizes), sum(sizes))


def _table_sizes() -> dict[str, int]:
    """Bytes of each table, with indexes and TOAST data."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, COALESCE((SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree(oid)),"
            " pg_total_relation_size(oid))::int8 FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition"
            " AND relnamespace = current_schema()::regnamespace"
        )
        return dict(cursor.fetchall())


def _records(sizes: dict[str, int], at: datetime) -> Holding:
    """Projects the recent rate of submitted jobs over the records' retention time."""
    n_rows = Record.objects.count()
    per_day = _rows_per_day(Record.objects, "submit_at", at)
    retention_days = _longest_retention_days()
    new_rows = per_day * min(365, retention_days)
    grown = n_rows + new_rows if retention_days >= 365 else max(new_rows, 0)
    return _holding("usage records", n_rows, sizes["usage_record"], grown)


def _longest_retention_days() -> int:
    """Longest retention of records among all sources."""
    site = settings.FAIRSHARE_KEEP_RECORDS_DAYS
    retentions = [
        site if days is None else days for days in Source.all_objects.values_list("keep_records_days", flat=True)
    ]
    return 36_500 if not retentions or 0 in retentions else max(retentions)


def _buckets(sizes: dict[str, int], at: datetime) -> Holding:
    n_rows = Bucket.objects.count()
    per_day = _rows_per_day(Bucket.objects, "hour_at", at)
    return _holding("usage buckets", n_rows, sizes["usage_bucket"], n_rows + per_day * 365)


def _rows_per_day(rows: models.Manager[Any], instant: str, at: datetime) -> float:
    """Rate of the last 30 days with any rows. instant: the field that says when a row happened."""
    ends = rows.filter(**{f"{instant}__lte": at}).aggregate(first=Min(instant), last=Max(instant))
    if ends["first"] is None:
        return 0.0
    period = min(max(ends["last"] - ends["first"] + _DAY, LEAST_PERIOD), SAMPLE_PERIOD)  # its first and last day count
    n_rows = rows.filter(**{f"{instant}__gt": ends["last"] - period, f"{instant}__lte": at}).count()
    return float(n_rows / (period / _DAY))


def _snapshots(sizes: dict[str, int], at: datetime) -> Holding:
    """Snapshots are thinned with age: all for 2 hours, hourly for 30 days, daily for a year; pinned ones for ever."""
    n_rows = Snapshot.objects.count()
    in_a_year = 0.0
    for policy in Snapshot.objects.values("policy").annotate(n=Count("id")).values_list("policy", flat=True):
        of_policy = Snapshot.objects.filter(policy=policy, is_live=True)
        n_newest = of_policy.filter(computed_at__gt=at - ALL_FOR).count()
        per_day = n_newest * (_DAY / ALL_FOR)
        hourly = min(per_day, 24) * ((HOURLY_FOR - ALL_FOR) / _DAY)
        daily = min(per_day, 1) * ((DAILY_FOR - HOURLY_FOR) / _DAY)
        in_a_year += n_newest + hourly + daily
    in_a_year += Snapshot.objects.filter(is_kept=True).count()
    n_bytes = sum(sizes[table] for table in _SNAPSHOTS)
    return _holding("snapshots", n_rows, n_bytes, max(in_a_year, 0.0) or float(n_rows))


def _series(sizes: dict[str, int]) -> Holding:
    """Each policy that has a series adds 365 days."""
    n_bytes = sum(sizes[table] for table in _SERIES)
    days = SeriesDay.objects.aggregate(n=Count("id"), policies=Count("policy", distinct=True))
    return _holding("daily series", days["n"], n_bytes, days["n"] + 365.0 * days["policies"])


def _audit(sizes: dict[str, int], at: datetime) -> Holding:
    n_rows = AuditEvent.objects.count()
    per_day = _rows_per_day(AuditEvent.objects, "at", at)
    return _holding("audit log", n_rows, sizes[AuditEvent._meta.db_table], n_rows + per_day * 365)


def _holding(name: str, n_rows: int, n_bytes: int, rows_in_a_year: float) -> Holding:
    """Assumes the present bytes per row. An empty table has no rate, so its present size is used."""
    per_row = n_bytes / n_rows if n_rows else 0.0
    return Holding(name, n_rows, n_bytes, round(rows_in_a_year), round(max(per_row * rows_in_a_year, 0.0)) or n_bytes)


def total(holdings: Sequence[Holding]) -> tuple[int, int]:
    """Return total bytes now and in a year."""
    return sum(holding.n_bytes for holding in holdings), sum(holding.bytes_in_a_year for holding in holdings)


def shown_size(n_bytes: float) -> str:
    size, unit = in_shown_unit(n_bytes)
    n_decimals = 0 if unit == "B" or 100 <= round(size, 1) < 1000 else 1
    return f"{size:.{n_decimals}f} {unit}"
