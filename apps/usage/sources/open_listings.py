"""Listings of jobs that run or wait, collected beside a log.

Open jobs that a complete listing doesn't contain have vanished, and are closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
from django.conf import settings
from django.db import connection, transaction

from apps.accounts import audit_log as audit
from apps.accounts.actor import SYSTEM
from apps.runs.models import Run
from apps.usage import bucket_deltas, buckets, changed_hours, pgbinary
from apps.usage.models import Source
from apps.usage.open_jobs import KNOWN_UNTIL
from apps.usage.parsers.base import FINISHED, PENDING, RUNNING, WITHDRAWN, RecordBatch, RecordRow, instant
from apps.usage.records import overlaps
from apps.usage.records.ingest import ingest_batch, read_limits
from apps.usage.records.record_rows import FINISHED_COLUMNS, finished_from_columns
from apps.usage.records.stored_versions import VANISHED, lock_source
from apps.usage.records.versions import Counts

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)

# It was last seen when it was last reported, and ran no longer than it may, unless a listing showed that it did.
_LAST = f"GREATEST(record.start_at, LEAST(record.seen_at, {KNOWN_UNTIL}))"
_CLOSE = f"""
WITH closed AS (
    UPDATE usage_record AS record SET note = '{VANISHED}',
        state = CASE WHEN record.state = {RUNNING} AND {_LAST} >= %s THEN {FINISHED} ELSE {WITHDRAWN} END,
        end_at = CASE WHEN record.state = {RUNNING} AND {_LAST} >= %s THEN {_LAST} END
    FROM usage_source AS source
    WHERE record.source_id = %s::int4 AND source.id = record.source_id
        AND record.state <> {FINISHED} AND record.state IN ({PENDING}, {RUNNING})
        AND (record.cluster = ANY(%s::text[]) OR %s::text[] IS NULL)
        AND (record.seen_at IS NULL OR record.seen_at < %s) AND record.submit_at <= %s
    RETURNING record.*),
ended AS (SELECT {FINISHED_COLUMNS} FROM closed WHERE state = {FINISHED})
SELECT (SELECT NULLIF(count(*), 0) FROM closed), (SELECT min(submit_at) FROM closed WHERE state = {WITHDRAWN}), ended.*
FROM ended
"""  # noqa: S608 - constants only
# Of what runs on beyond the time that it asked for, more counts now.
_LISTED = f"""
UPDATE usage_source AS source SET listed_at = GREATEST(source.listed_at, %(at)s),
    watermark = watermark + EXISTS(SELECT FROM usage_record AS record WHERE record.source_id = source.id
        AND record.state <> {FINISHED} AND record.state = {RUNNING} AND {KNOWN_UNTIL} < %(at)s)::int
WHERE id = %(source)s
"""  # noqa: S608 - constants only
_ADVANCE = """
UPDATE usage_source SET watermark = watermark + 1, last_received_at = GREATEST(last_received_at, %s) WHERE id = %s
"""


def ingest_listing(
    source: Source, batch: RecordBatch | Sequence[RecordRow], at: datetime, run: Run | None = None
) -> Counts:
    """Store a complete listing of the running and pending jobs at `at`, in the caller's transaction or a new one.

    An open record that the listing doesn't contain has vanished: a running one ends when it was last seen, but no later
    than it may have run unless it was listed; a pending one is withdrawn; both with the note "vanished". Only clusters
    in the listing are concerned; for an empty listing, the source's cluster, or all if it has none. Accounting with the
    real end replaces the record later; a listing that contains the job again reopens it.
    """
    rows = batch if isinstance(batch, RecordBatch) else RecordBatch.from_rows(batch)
    with transaction.atomic():
        counts = ingest_batch(source=source, rows=rows, at=at, run=run, is_listing=True)
        _close_missing(source, _clusters(rows, source), at, counts, contact_at=at)
        with connection.cursor() as cursor:
            cursor.execute(_LISTED, {"at": at, "source": source.pk})
    return counts


def close_silent_jobs(*, at: datetime) -> int:
    """Close open jobs of sources without contact for FAIRSHARE_CLOSE_OPEN_DAYS, as an empty listing would.

    Whether they still run is unknown, and their usage would grow for ever. Returns their number.
    """
    days: int = settings.FAIRSHARE_CLOSE_OPEN_DAYS
    if not days:
        return 0
    silent = Source.all_objects.filter(last_received_at__lt=at - timedelta(days=days)).exclude(kind=Source.Kind.PEER)
    return sum(_close_all(pk, at, days) for pk in silent.order_by("pk").values_list("pk", flat=True))


@transaction.atomic
def _close_all(source_id: int, at: datetime, days: int) -> int:
    lock_source(source_id)
    source, counts = Source.all_objects.get(pk=source_id), Counts()
    if source.last_received_at is None or source.last_received_at >= at - timedelta(days=days):
        return 0  # contacted in the meantime
    _close_missing(source, None, at, counts, contact_at=source.last_received_at)
    if counts.vanished:
        details = {"jobs": counts.vanished, "days": days}
        audit.record(actor=SYSTEM, verb="usage.open_jobs_closed", at=at, subject=source.slug, details=details)
    return counts.vanished


def _close_missing(
    source: Source, clusters: list[str] | None, at: datetime, counts: Counts, *, contact_at: datetime
) -> None:
    limits = read_limits(source.pk)
    sealed_at = instant(limits.sealed_us) if limits.sealed_us is not None else _LONG_AGO
    columns = pgbinary.fetch_columns(_CLOSE, [sealed_at, sealed_at, source.pk, clusters, clusters, at, at])
    if not columns:
        return
    n_closed, first_at, *closed = columns
    if first_at is not None:  # they were demand since they were submitted
        changed_hours.note_change(source.pk, first_at)
    if closed[0] is not None:
        ended = finished_from_columns(closed, sign=1)
        delta = bucket_deltas.compute_delta(ended)
        buckets.apply_delta(source.pk, delta)
        nothing = RecordBatch.from_rows([])
        overlaps.add_presence(source, delta, nothing, has_rivals=limits.has_rivals, at=at)
        counts.core_s += float(delta.amounts[:, 0].sum(dtype=np.float64)) / bucket_deltas.QUANTA
        counts.account_ids |= set(np.unique(ended.account_id).tolist())
    counts.vanished = n_closed
    with connection.cursor() as cursor:
        cursor.execute(_ADVANCE, [contact_at, source.pk])


def _clusters(rows: RecordBatch, source: Source) -> list[str] | None:
    """Clusters that the listing covers; None for all."""
    if not len(rows):
        return [source.cluster] if source.cluster else None
    return sorted({name.decode() or source.cluster for name in np.unique(rows.cluster)})
