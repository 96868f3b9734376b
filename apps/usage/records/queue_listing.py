"""Listings: what a scheduler says runs or waits now. What a whole one misses has vanished, and is closed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
from django.db import connection, transaction

from apps.runs.models import Run
from apps.usage import pgbinary
from apps.usage.buckets import hourly as buckets
from apps.usage.models import Source
from apps.usage.parsers.base import I8, RecordBatch, RecordRow, instant
from apps.usage.pgbinary import Int8Array
from apps.usage.records import overlaps
from apps.usage.records.ingest import ingest_batch, read_limits
from apps.usage.records.record_rows import FINISHED_COLUMNS, finished_rows
from apps.usage.records.versions import VANISHED, Counts, lock_source

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def ingest_listing(
    source: Source, batch: RecordBatch | Sequence[RecordRow], at: datetime, run: Run | None = None
) -> Counts:
    """Store a whole listing of the jobs that run or wait at `at`, in the caller's transaction or one of its own.

    An open record that it lacks has vanished: a running one ends when it was last seen, a waiting one is withdrawn,
    both with the note "vanished". This concerns the clusters in the listing (the source's own where it names none; all,
    where it is empty and the source has none). Accounting with the real end later replaces it; a listing that names the
    job again opens it again.
    """
    rows = batch if isinstance(batch, RecordBatch) else RecordBatch.from_rows(batch)
    with transaction.atomic():
        counts = ingest_batch(source=source, rows=rows, at=at, run=run, is_listing=True)
        lock_source(source.pk)  # after names have their numbers, as everywhere: or two writers wait for each other
        _close_missed(source, _clusters(rows, source), at, counts)
    return counts


_MISSED = """
SELECT array_agg(id) FROM usage_record
WHERE source_id = %s AND NOT (state = 'finished') AND state IN ('pending', 'running')
    AND (cluster = ANY(%s::text[]) OR %s::text[] IS NULL)
    AND (seen_at IS NULL OR seen_at < %s) AND submit_at <= %s
"""
_CLOSE = f"""
WITH closed AS (
    UPDATE usage_record SET note = '{VANISHED}',
        state = CASE WHEN state = 'running' AND COALESCE(seen_at, start_at) >= %s THEN 'finished' ELSE 'withdrawn' END,
        end_at = CASE WHEN state = 'running' AND COALESCE(seen_at, start_at) >= %s THEN GREATEST(start_at, seen_at) END
    WHERE id = ANY(%s::int8[]) RETURNING *)
SELECT {FINISHED_COLUMNS} FROM closed WHERE state = 'finished'
"""  # noqa: S608 - constants only
_ADVANCE = """
UPDATE usage_source SET watermark = watermark + 1, last_received_at = GREATEST(last_received_at, %s) WHERE id = %s
"""


def _close_missed(source: Source, clusters: list[str] | None, at: datetime, counts: Counts) -> None:
    found = pgbinary.fetch_columns(_MISSED, [source.pk, clusters, clusters, at, at])
    if not found:
        return
    missed: I8 = found[0]
    limits = read_limits(source.pk)
    sealed_at = instant(limits.sealed_us) if limits.sealed_us is not None else _LONG_AGO
    ended = finished_rows(pgbinary.fetch_columns(_CLOSE, [sealed_at, sealed_at, Int8Array(missed)]), sign=1)
    if len(ended):
        delta = buckets.delta_of(ended)
        buckets.apply_delta(source.pk, delta)
        nothing = RecordBatch.from_rows([])
        overlaps.note_hours(source, delta, nothing, has_rivals=limits.has_rivals, at=at)
        counts.core_s += float(delta.amounts[:, 0].sum()) / buckets.QUANTA
        counts.account_ids |= set(np.unique(ended.account_id).tolist())
    counts.vanished = len(missed)
    with connection.cursor() as cursor:
        cursor.execute(_ADVANCE, [at, source.pk])


def _clusters(rows: RecordBatch, source: Source) -> list[str] | None:
    """Of which it speaks; None: of all."""
    if not len(rows):
        return [source.cluster] if source.cluster else None
    return sorted({name.decode() or source.cluster for name in np.unique(rows.cluster)})
