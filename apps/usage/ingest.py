"""Records into the database, each counted exactly once in its latest version, whatever order they come in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
from django.db import connection, transaction

from apps.accounts.intern import AccountKey, account_ids
from apps.runs.faults import fault_point
from apps.runs.models import Run
from apps.usage import buckets
from apps.usage.collectors.base import I8, RUNNING, Bytes, JobClassKey, RecordBatch, RecordRow, instant
from apps.usage.models import JobClass, Source
from apps.usage.pgbinary import Int8Array
from apps.usage.pgbinary import cursor as binary_cursor
from apps.usage.record_rows import copy_records, finished_of, take_out
from apps.usage.versions import Counts, Stored, Verdict, find_stored, judge

IMPORT = "usage_import"  # the kind of run that can be undone
_LOCK = 0x66735573  # one writer of a source at a time


def ingest_batch(
    *,
    source: Source,
    rows: RecordBatch | Sequence[RecordRow],
    at: datetime,
    run: Run | None = None,
    is_listing: bool = False,
) -> Counts:
    """Take in valid records of one source, in the caller's transaction or one of its own.

    New ones are added; a later revision, else a later end, else a later state replaces what is stored, and the
    buckets follow in the same transaction; the same again and older ones change nothing, and are counted.
    """
    batch = rows if isinstance(rows, RecordBatch) else RecordBatch.from_rows(rows)
    if not len(batch):
        return Counts()
    batch = with_defaults(batch, source)
    with transaction.atomic():
        account_id = _account_ids(batch, source.namespace, at)
        job_class_id = _job_class_ids(batch)
        lock_source(source.pk)
        stored = find_stored(source.pk, batch, is_listing=is_listing)
        verdict = judge(batch, stored)
        verdict.counts.account_ids = set(np.unique(account_id).tolist())
        fault_point("usage.ingest.after_keys")
        if len(verdict.winners):
            verdict.counts.core_s = _write(source, batch, verdict, account_id, job_class_id, run, at)
            _advance(source, batch.end_us[verdict.winners], verdict.counts.new, at)
        _note_seen(batch, stored, verdict, at)
        fault_point("usage.ingest.before_commit")
    return verdict.counts


def lock_source(source_id: int) -> None:
    """Until the end of the transaction, nobody else writes this source's records and buckets."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [_LOCK, source_id])


def with_defaults(batch: RecordBatch, source: Source) -> RecordBatch:
    """Cluster and site of the source, where a record names none."""
    changed = batch.take(np.arange(len(batch)))
    changed.cluster = _filled(batch.cluster, source.cluster)
    changed.site = _filled(batch.site, source.site)
    return changed


def _write(
    source: Source,
    batch: RecordBatch,
    verdict: Verdict,
    account_id: I8,
    job_class_id: I8,
    run: Run | None,
    at: datetime,
) -> float:
    """Records and buckets; returns the core-seconds that came in, less those taken back."""
    chosen, run_id = verdict.winners, run.pk if run else None
    written = batch.take(chosen)
    change = finished_of(written, account_id[chosen], job_class_id[chosen])
    replaced = verdict.replaced[verdict.replaced > 0]
    if len(replaced):
        is_import = run is not None and run.kind == IMPORT
        change = change.joined(take_out(replaced, by_run_id=run_id, keep_all=is_import, at=at))
    copy_records(source.pk, written, account_id[chosen], job_class_id[chosen], run_id, at)
    fault_point("usage.ingest.after_copy")
    if not len(change):
        return 0.0
    delta = buckets.delta_of(change)
    buckets.apply_delta(source.pk, delta)
    return float(delta.amounts[:, 0].sum()) / buckets.QUANTA


_SEEN = """
UPDATE usage_record SET seen_at = %s
WHERE id = ANY(%s::int8[]) AND NOT (state = 'finished') AND (seen_at IS NULL OR seen_at < %s)
"""


def _note_seen(batch: RecordBatch, stored: Stored, verdict: Verdict, at: datetime) -> None:
    """An open job that was told again is still there."""
    again = verdict.again[batch.state[verdict.again] <= RUNNING]
    if len(again):
        with binary_cursor() as found:
            found.execute(_SEEN, [at, Int8Array(np.unique(stored.id[again])), at])


_ADVANCE = """
UPDATE usage_source SET watermark = watermark + 1, n_records = n_records + %s,
    last_record_end_at = GREATEST(last_record_end_at, %s), last_received_at = GREATEST(last_received_at, %s)
WHERE id = %s
"""


def _advance(source: Source, end_us: I8, n_new: int, at: datetime) -> None:
    last_end_at = instant(int(end_us.max()))
    with connection.cursor() as cursor:
        cursor.execute(_ADVANCE, [n_new, last_end_at, at, source.pk])


def _account_ids(batch: RecordBatch, namespace: str, at: datetime) -> I8:
    used, place = np.unique(batch.who, return_inverse=True)
    keys = [AccountKey(namespace, *batch.people[code]) for code in used.tolist()]
    found = account_ids(keys, at=at)
    return np.array([found[key] for key in keys], np.int64)[place]


def _job_class_ids(batch: RecordBatch) -> I8:
    used, place = np.unique(batch.job_class, return_inverse=True)
    keys = [batch.job_classes[code] for code in used.tolist()]
    known = _stored_job_classes(keys)
    missing = sorted(set(keys) - known.keys())
    if missing:
        JobClass.objects.bulk_create([JobClass(**key._asdict()) for key in missing], ignore_conflicts=True)
        known = _stored_job_classes(keys)
    return np.array([known[key] for key in keys], np.int64)[place]


def _stored_job_classes(keys: list[JobClassKey]) -> dict[JobClassKey, int]:
    found = JobClass.objects.filter(queue__in={key.queue for key in keys})
    rows = found.values_list("queue", "partition", "qos", "id")
    return {JobClassKey(*row[:3]): row[3] for row in rows}


def _filled(texts: Bytes, default: str) -> Bytes:
    if not default:
        return texts
    return np.where(texts == b"", np.bytes_(default.encode()), texts)
