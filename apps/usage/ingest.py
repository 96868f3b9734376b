"""Records into the database, each counted exactly once in its latest version, whatever order they come in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from django.db import connection, transaction

from apps.accounts.intern import AccountKey, account_ids
from apps.runs.faults import fault_point
from apps.runs.models import Run
from apps.usage import buckets, pgbinary
from apps.usage.collectors.base import (
    FINISHED,
    I8,
    NO_TIME,
    STATES,
    WITHDRAWN,
    Bytes,
    Flags,
    JobClassKey,
    RecordBatch,
    RecordRow,
    instant,
)
from apps.usage.models import JobClass, Source
from apps.usage.pgbinary import Int8Array, TextArray, TimestamptzArray

_LOCK = 0x66735573  # one writer of a source at a time
_WITHDRAWN_END = np.iinfo(np.int64).max  # a withdrawal stands above every version with its revision
_STATE_NAMES = np.array([name.encode() for name in STATES])


@dataclass(slots=True)
class Counts:
    """What became of the records of a batch."""

    new: int = 0
    duplicate: int = 0
    corrected: int = 0
    late: int = 0
    rejected: int = 0
    core_s: float = 0.0  # by which the buckets changed
    account_ids: set[int] = field(default_factory=set)

    def add(self, other: Counts) -> None:
        self.new += other.new
        self.duplicate += other.duplicate
        self.corrected += other.corrected
        self.late += other.late
        self.rejected += other.rejected
        self.core_s += other.core_s
        self.account_ids |= other.account_ids

    def as_dict(self) -> dict[str, int]:
        names = ("new", "duplicate", "corrected", "late", "rejected")
        return {name: getattr(self, name) for name in names}


@dataclass(slots=True)
class Stored:
    """What is known already of each record of a batch: id 0 where nothing is."""

    id: I8
    revision: I8
    end_us: I8
    state: I8

    @classmethod
    def nothing(cls, n: int) -> Stored:
        return cls(*(np.zeros(n, np.int64) for _ in range(4)))


@dataclass(slots=True)
class Verdict:
    """Which records to write, the stored ones they replace (0: none), and the counts."""

    winners: I8
    replaced: I8
    counts: Counts


def ingest_batch(
    *, source: Source, rows: RecordBatch | Sequence[RecordRow], at: datetime, run: Run | None = None
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
        verdict = judge(batch, find_stored(source.pk, batch))
        verdict.counts.account_ids = set(np.unique(account_id).tolist())
        fault_point("usage.ingest.after_keys")
        if len(verdict.winners):
            verdict.counts.core_s = _write(source, batch, verdict, account_id, job_class_id, run)
            _advance(source, batch.end_us[verdict.winners], verdict.counts.new, at)
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


def judge(batch: RecordBatch, stored: Stored) -> Verdict:
    """New, duplicate, corrected or late, as if the records had come one by one in their order."""
    end_us = comparable_end(batch.end_us, batch.state)
    comparison = _compare(batch, end_us, stored)
    is_new = stored.id == 0
    repeats = _repeated(batch)
    once = ~repeats
    counts = Counts(
        new=int((once & is_new).sum()),
        duplicate=int((once & ~is_new & (comparison == 0)).sum()),
        corrected=int((once & ~is_new & (comparison > 0)).sum()),
        late=int((once & ~is_new & (comparison < 0)).sum()),
    )
    winners = np.flatnonzero(once & (is_new | (comparison > 0)))
    if repeats.any():
        more = _judge_repeated(batch, end_us, stored, np.flatnonzero(repeats), counts)
        winners = np.sort(np.concatenate([winners, more]))
    return Verdict(winners=winners, replaced=stored.id[winners], counts=counts)


_FIND = """
SELECT array_agg(given.place - 1), array_agg(record.id), array_agg(record.revision),
    array_agg(COALESCE(record.end_at, '-infinity')),
    array_agg(array_position(%s::text[], record.state::text)::int8 - 1)
FROM unnest(%s::text[], %s::text[], %s::text[], %s::timestamptz[], %s::int8[])
    WITH ORDINALITY AS given(cluster, job, array_task, submit_at, restart, place)
CROSS JOIN LATERAL (
    SELECT id, revision, end_at, state FROM usage_record AS stored
    WHERE stored.source_id = %s AND stored.cluster = given.cluster AND stored.job = given.job
        AND stored.array_task = given.array_task AND stored.submit_at = given.submit_at
        AND stored.restart = given.restart::int4
    LIMIT 1) AS record
"""


def find_stored(source_id: int, batch: RecordBatch) -> Stored:
    """Look each key up in the index; never a scan of the table, also where it has no statistics yet."""
    stored = Stored.nothing(len(batch))
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('enable_seqscan', 'off', true)")
        given = [TextArray(batch.cluster), TextArray(batch.job), TextArray(batch.array_task)]
        times = [TimestamptzArray(batch.submit_us), Int8Array(batch.restart)]
        found = pgbinary.fetch_columns(_FIND, [list(STATES), *given, *times, source_id])
        cursor.execute("SELECT set_config('enable_seqscan', 'on', true)")
    if found:
        place, stored_id, revision, end_us, state = found
        stored.id[place], stored.revision[place], stored.state[place] = stored_id, revision, state
        stored.end_us[place] = comparable_end(end_us, state)
    return stored


def key_hash(batch: RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """64 bits of each key; equal keys have equal ones, and others almost never."""
    mixed = _mix(batch.submit_us.view(np.uint64))
    mixed = _mix(mixed ^ batch.restart.view(np.uint64))
    for texts in (batch.job, batch.array_task, batch.cluster):
        mixed = _mix(mixed)
        for word in _words(texts):  # zero behind the end of a text, which must not tell how wide its column is
            mixed = np.where(word != 0, _mix(mixed ^ word), mixed)
    return mixed


def keys_of(batch: RecordBatch, chosen: I8) -> list[tuple[object, ...]]:
    columns = (batch.cluster, batch.job, batch.array_task, batch.submit_us, batch.restart)
    return list(zip(*(column[chosen].tolist() for column in columns), strict=True))


def _compare(batch: RecordBatch, end_us: I8, stored: Stored) -> I8:
    """Sign of (incoming − stored) in the order revision, end, state."""
    by_state = np.sign(batch.state - stored.state)
    by_end = (end_us > stored.end_us).astype(np.int64) - (end_us < stored.end_us)
    by_revision = np.sign(batch.revision - stored.revision)
    return np.where(by_revision != 0, by_revision, np.where(by_end != 0, by_end, by_state))


def comparable_end(end_us: I8, state: I8) -> I8:
    return np.where(state == WITHDRAWN, _WITHDRAWN_END, np.where(state == FINISHED, end_us, NO_TIME))


def _repeated(batch: RecordBatch) -> Flags:
    """Which records share their key (or, hardly ever, only its hash) with another of the batch."""
    _, group, size = np.unique(key_hash(batch), return_inverse=True, return_counts=True)
    return size[group] > 1


def _judge_repeated(batch: RecordBatch, end_us: I8, stored: Stored, rows: I8, counts: Counts) -> I8:
    """One by one; returns the last accepted version of each key."""
    newest: dict[tuple[object, ...], tuple[int, int, int]] = {}
    winner: dict[tuple[object, ...], int] = {}
    for row, key in zip(rows.tolist(), keys_of(batch, rows), strict=True):
        version = (int(batch.revision[row]), int(end_us[row]), int(batch.state[row]))
        if key not in newest and stored.id[row]:
            newest[key] = (int(stored.revision[row]), int(stored.end_us[row]), int(stored.state[row]))
        known = newest.get(key)
        if known is None:
            counts.new += 1
        elif version == known:
            counts.duplicate += 1
            continue
        elif version < known:
            counts.late += 1
            continue
        else:
            counts.corrected += 1
        newest[key], winner[key] = version, row
    return np.fromiter(winner.values(), np.int64, len(winner))


def _write(
    source: Source, batch: RecordBatch, verdict: Verdict, account_id: I8, job_class_id: I8, run: Run | None
) -> float:
    """Records and buckets; returns the core-seconds that came in, less those taken back."""
    chosen = verdict.winners
    written = batch.take(chosen)
    change = _finished(written, account_id[chosen], job_class_id[chosen])
    replaced = verdict.replaced[verdict.replaced > 0]
    if len(replaced):
        change = change.joined(_take_out(replaced))
    _copy(source.pk, written, account_id[chosen], job_class_id[chosen], run)
    fault_point("usage.ingest.after_copy")
    if not len(change):
        return 0.0
    delta = buckets.delta_of(change)
    buckets.apply_delta(source.pk, delta)
    return float(delta.amounts[:, 0].sum()) / buckets.QUANTA


_COLUMNS = (
    "source_id, cluster, job, array_task, submit_at, restart, revision, state, account_id, job_class_id, site,"
    " start_at, end_at, cpus, gpus, nodes, mem_mb, billing, requested_s, run_id"
)
COPY = f"COPY usage_record ({_COLUMNS}) FROM STDIN (FORMAT BINARY)"


def record_columns(
    source_id: int, batch: RecordBatch, account_id: I8, job_class_id: I8, run_id: int | None
) -> list[pgbinary.Column]:
    """The columns of COPY, in its order."""
    return [
        pgbinary.constant_int8(source_id, len(batch)),
        pgbinary.text(batch.cluster),
        pgbinary.text(batch.job),
        pgbinary.text(batch.array_task),
        pgbinary.timestamptz(batch.submit_us),
        pgbinary.int4(batch.restart),
        pgbinary.int8(batch.revision),
        pgbinary.text(_STATE_NAMES[batch.state]),
        pgbinary.int8(account_id),
        pgbinary.int8(job_class_id),
        pgbinary.text(batch.site),
        pgbinary.timestamptz(batch.start_us),
        pgbinary.timestamptz(batch.end_us),
        pgbinary.float8(batch.cpus),
        pgbinary.float8(batch.gpus),
        pgbinary.float8(batch.nodes),
        pgbinary.float8(batch.mem_mb),
        pgbinary.float8(batch.billing),
        pgbinary.float8(batch.requested_s, nan_is_null=True),
        pgbinary.constant_int8(run_id, len(batch)),
    ]


def _copy(source_id: int, batch: RecordBatch, account_id: I8, job_class_id: I8, run: Run | None) -> None:
    pgbinary.copy_in(COPY, record_columns(source_id, batch, account_id, job_class_id, run.pk if run else None))


def _finished(batch: RecordBatch, account_id: I8, job_class_id: I8) -> buckets.Finished:
    chosen = np.flatnonzero(batch.state == FINISHED)
    return buckets.Finished(
        sign=np.ones(len(chosen), np.int64),
        account_id=account_id[chosen],
        job_class_id=job_class_id[chosen],
        site=batch.site[chosen],
        start_us=batch.start_us[chosen],
        end_us=batch.end_us[chosen],
        cpus=batch.cpus[chosen],
        gpus=batch.gpus[chosen],
        mem_mb=batch.mem_mb[chosen],
        nodes=batch.nodes[chosen],
        billing=batch.billing[chosen],
    )


_TAKE_OUT = """
WITH gone AS (
    DELETE FROM usage_record WHERE id = ANY(%s::int8[]) RETURNING state, account_id, job_class_id, site,
        start_at, end_at, cpus, gpus, mem_mb, nodes, billing)
SELECT array_agg(account_id), array_agg(job_class_id), array_agg(start_at), array_agg(end_at), array_agg(cpus),
    array_agg(gpus), array_agg(mem_mb), array_agg(nodes), array_agg(billing), array_agg(site)
FROM gone WHERE state = 'finished'
"""


def _take_out(ids: I8) -> buckets.Finished:
    """Remove replaced versions, and return what they had added to the buckets, to be taken back."""
    found = pgbinary.fetch_columns(_TAKE_OUT, [Int8Array(ids)])
    if not found:
        found = [np.zeros(0, np.int64)] * 4 + [np.zeros(0)] * 5 + [[]]
    account_id, job_class_id, start_us, end_us, cpus, gpus, mem_mb, nodes, billing, site = found
    return buckets.Finished(
        sign=np.full(len(account_id), -1, np.int64),
        account_id=account_id,
        job_class_id=job_class_id,
        site=np.array([name.encode() for name in site], dtype=np.bytes_),
        start_us=start_us,
        end_us=end_us,
        cpus=cpus,
        gpus=gpus,
        mem_mb=mem_mb,
        nodes=nodes,
        billing=billing,
    )


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


def _mix(word: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """One round of splitmix64."""
    word = (word + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    return word ^ (word >> np.uint64(29))


def _words(texts: Bytes) -> list[np.ndarray[tuple[int], np.dtype[np.uint64]]]:
    width = -(-max(texts.dtype.itemsize, 1) // 8) * 8
    return list(np.ascontiguousarray(texts.astype(f"S{width}")).view(np.uint64).reshape(len(texts), -1).T)
