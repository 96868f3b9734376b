"""Which version of a record is stored, and records as rows: the columns of COPY, and removal of replaced versions."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from django.db import connection, transaction

from apps.usage import buckets, pgbinary
from apps.usage.parsers.base import (
    FINISHED,
    I8,
    NO_TIME,
    PENDING,
    RUNNING,
    STATES,
    WITHDRAWN,
    Bytes,
    Flags,
    RecordBatch,
    Rejection,
    Who,
    microseconds,
)
from apps.usage.pgbinary import Int8Array, TextArray, TimestamptzArray

# --- Order of versions ------------------------------------------------------------------------------------------------
VANISHED = "vanished"  # the note of an open record that a whole listing missed
_LOCK = 0x66735573  # one writer of a source at a time
_WITHDRAWN_END = np.iinfo(np.int64).max  # a withdrawal precedes every version with its revision


COUNTED = ("new", "duplicate", "corrected", "late", "too_late", "rejected")


@dataclass(slots=True)
class Counts:
    """What became of the records of a batch."""

    new: int = 0
    duplicate: int = 0
    corrected: int = 0
    late: int = 0
    too_late: int = 0  # ended before the source was sealed: listed, not counted in usage
    rejected: int = 0
    vanished: int = 0  # open ones that a whole listing missed
    core_s: float = 0.0  # by which the buckets changed
    core_s_of: dict[Who, float] = field(default_factory=dict)  # the same by account, of a dry run
    changed_from_us: int | None = None  # the first start of what changed them
    account_ids: set[int] = field(default_factory=set)
    rejections: list[Rejection] = field(default_factory=list)  # of records that only the clock could refuse

    def add(self, other: Counts) -> None:
        self.new += other.new
        self.duplicate += other.duplicate
        self.corrected += other.corrected
        self.late += other.late
        self.too_late += other.too_late
        self.rejected += other.rejected
        self.vanished += other.vanished
        self.core_s += other.core_s
        self.changed_from_us = earlier(self.changed_from_us, other.changed_from_us)
        self.account_ids |= other.account_ids
        self.rejections += other.rejections

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in COUNTED}


def earlier(one: int | None, other: int | None) -> int | None:
    return min((us for us in (one, other) if us is not None), default=None)


@dataclass(slots=True)
class Stored:
    """What is known already of each record of a batch: id 0 where nothing is, run 0 where none brought it."""

    id: I8
    revision: I8
    end_us: I8
    state: I8
    run_id: I8

    def take(self, chosen: I8 | Flags) -> Stored:
        return Stored(*(getattr(self, name)[chosen] for name in Stored.__slots__))

    @classmethod
    def nothing(cls, n: int) -> Stored:
        return cls(*(np.zeros(n, np.int64) for _ in range(5)))


@dataclass(slots=True)
class Verdict:
    """Which records to write, the stored ones they replace (0: none), which came again, and the counts."""

    winners: I8
    replaced: I8
    again: I8  # rows that say nothing newer than what was stored
    counts: Counts


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
    again = np.flatnonzero(~is_new & (comparison <= 0))
    return Verdict(winners=winners, replaced=stored.id[winners], again=again, counts=counts)


def lock_source(source_id: int) -> None:
    """Until the end of the transaction, no other process writes this source's records and buckets."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [_LOCK, source_id])


_FIND = f"""
SELECT array_agg(given.place - 1), array_agg(record.id), array_agg(record.revision),
    array_agg(COALESCE(record.end_at, '-infinity')),
    array_agg(array_position(%s::text[], record.state::text)::int8 - 1),
    array_agg(COALESCE(record.run_id, 0) * 2 + (record.note = '{VANISHED}')::int)
FROM unnest(%s::text[], %s::text[], %s::text[], %s::timestamptz[], %s::int8[])
    WITH ORDINALITY AS given(cluster, job, array_task, submit_at, restart, place)
CROSS JOIN LATERAL (
    SELECT id, revision, end_at, state, run_id, note FROM usage_record AS stored
    WHERE stored.source_id = %s AND stored.cluster = given.cluster AND stored.job = given.job
        AND stored.array_task = given.array_task AND stored.submit_at = given.submit_at
        AND stored.restart = given.restart::int4
    LIMIT 1) AS record
"""  # noqa: S608 - constants only


def find_stored(source_id: int, batch: RecordBatch, *, is_listing: bool = False) -> Stored:
    """Find each key through the index; never a scan of the table, also where it has no statistics yet.

    Records submitted after every stored one are new without a query: most of what arrives. A vanished version has the
    rank of the open version that it closed: any real end replaces it. A listing that names the job again shows that it
    never vanished.
    """
    stored = Stored.nothing(len(batch))
    chosen = _maybe_stored(source_id, batch)
    if not len(chosen):
        return stored
    asked = batch if len(chosen) == len(batch) else batch.take(chosen)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('enable_seqscan', 'off', true)")
        given = [TextArray(asked.cluster), TextArray(asked.job), TextArray(asked.array_task)]
        times = [TimestamptzArray(asked.submit_us), Int8Array(asked.restart)]
        found = pgbinary.fetch_columns(_FIND, [list(STATES), *given, *times, source_id])
        cursor.execute("SELECT set_config('enable_seqscan', 'on', true)")
    if found:
        asked_place, stored_id, revision, end_us, state, run_and_note = found
        place = chosen[asked_place]
        vanished = (run_and_note & 1).astype(np.bool_)
        open_state = np.full(len(state), -1) if is_listing else np.where(state == FINISHED, RUNNING, PENDING)
        state = np.where(vanished, open_state, state)
        stored.id[place], stored.revision[place], stored.state[place] = stored_id, revision, state
        stored.end_us[place], stored.run_id[place] = comparable_end(end_us, state), run_and_note >> 1
    return stored


def _maybe_stored(source_id: int, batch: RecordBatch) -> I8:
    """Which records were not submitted after all that are stored."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT last_submit_at FROM usage_source WHERE id = %s", [source_id])
        row = cursor.fetchone()
    if row is None or row[0] is None:
        return np.zeros(0, np.int64)
    return np.flatnonzero(batch.submit_us <= microseconds(row[0]))


def key_hash(batch: RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """64 bits of each key; equal keys have equal ones, and others almost never."""
    mixed = _mix(batch.submit_us.view(np.uint64))
    mixed = _mix(mixed ^ batch.restart.view(np.uint64))
    for texts in (batch.job, batch.array_task, batch.cluster):
        mixed = _mix(mixed)
        for word in _words(texts):  # zero after the end of a text, which must not set the width of its column
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


def _mix(word: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """One round of splitmix64."""
    word = (word + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    return word ^ (word >> np.uint64(29))


def _words(texts: Bytes) -> list[np.ndarray[tuple[int], np.dtype[np.uint64]]]:
    width = -(-max(texts.dtype.itemsize, 1) // 8) * 8
    return list(np.ascontiguousarray(texts.astype(f"S{width}")).view(np.uint64).reshape(len(texts), width // 8).T)


# --- Records as rows --------------------------------------------------------------------------------------------------
_STATE_NAMES = np.array([name.encode() for name in STATES])
COLUMNS = (
    "source_id, cluster, job, array_task, submit_at, restart, revision, state, account_id, job_class_id, site,"
    " start_at, end_at, cpus, gpus, nodes, mem_mb, billing, requested_s, run_id"
)
MARKS = "is_charge, seen_at"  # of a few records only: left to their defaults where no record of a batch has any
_NOTE = "note"
COPY = f"COPY usage_record ({COLUMNS}) FROM STDIN (FORMAT BINARY)"
_COPY_MARKED = f"COPY usage_record ({COLUMNS}, {MARKS}) FROM STDIN (FORMAT BINARY)"


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


def copy_records(
    source_id: int, batch: RecordBatch, account_id: I8, job_class_id: I8, run_id: int | None, at: datetime
) -> None:
    """Add rows; an open job was seen now."""
    columns = record_columns(source_id, batch, account_id, job_class_id, run_id)
    is_open = batch.state <= RUNNING
    if not (is_open.any() or batch.is_charge.any()):
        pgbinary.copy_in(COPY, columns)
        return
    seen_us = np.where(is_open, microseconds(at), NO_TIME)
    pgbinary.copy_in(_COPY_MARKED, [*columns, pgbinary.boolean(batch.is_charge), pgbinary.timestamptz(seen_us)])


def finished_of(batch: RecordBatch, account_id: I8, job_class_id: I8) -> buckets.FinishedRecords:
    """Of these records the finished ones, to be counted."""
    chosen = np.flatnonzero(batch.state == FINISHED)
    return buckets.FinishedRecords(
        sign=np.ones(len(chosen), np.int64),
        is_job=1 - batch.is_charge[chosen].astype(np.int64),
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


FINISHED_COLUMNS = """
array_agg((NOT is_charge)::int::int8), array_agg(account_id), array_agg(job_class_id), array_agg(start_at),
array_agg(end_at), array_agg(cpus), array_agg(gpus), array_agg(mem_mb), array_agg(nodes), array_agg(billing),
array_agg(site)
"""
_ALL = f"{COLUMNS}, {MARKS}, {_NOTE}"
_REMOVE_VERSIONS = f"""
WITH gone AS (DELETE FROM usage_record WHERE id = ANY(%s::int8[]) RETURNING *),
kept AS (
    INSERT INTO usage_replacedrecord ({_ALL}, by_run_id, replaced_at)
    SELECT {_ALL}, %s::int8, %s::timestamptz FROM gone WHERE state = 'finished' OR %s::bool)
SELECT {FINISHED_COLUMNS} FROM gone WHERE state = 'finished'
"""  # noqa: S608 - constants only


def remove_versions(ids: I8, *, by_run_id: int | None, keep_all: bool, at: datetime) -> buckets.FinishedRecords:
    """Remove replaced versions, and return what they had added to the buckets, to be subtracted.

    Finished ones are archived, with `keep_all` (an import, which may be undone) all of them.
    """
    return finished_rows(pgbinary.fetch_columns(_REMOVE_VERSIONS, [Int8Array(ids), by_run_id, at, keep_all]), sign=-1)


def finished_rows(found: list[Any], *, sign: int) -> buckets.FinishedRecords:
    """The columns of FINISHED_COLUMNS, to be added (+1) or subtracted (−1)."""
    if not found:
        found = [np.zeros(0, np.int64)] * 5 + [np.zeros(0)] * 5 + [[]]
    is_job, account_id, job_class_id, start_us, end_us, cpus, gpus, mem_mb, nodes, billing, site = found
    return buckets.FinishedRecords(
        sign=np.full(len(account_id), sign, np.int64),
        is_job=is_job,
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


_EARLIER = """
SELECT array_agg(id) FROM (
    SELECT DISTINCT ON (gone.id) old.id FROM usage_record AS gone JOIN usage_replacedrecord AS old
        ON old.by_run_id = gone.run_id AND old.job = gone.job AND old.source_id = gone.source_id
            AND old.cluster = gone.cluster AND old.array_task = gone.array_task AND old.submit_at = gone.submit_at
            AND old.restart = gone.restart
    WHERE gone.id = ANY(%s::int8[]) AND old.run_id IS DISTINCT FROM gone.run_id
    ORDER BY gone.id, old.revision DESC,
        CASE old.state WHEN 'withdrawn' THEN 'infinity' WHEN 'finished' THEN old.end_at ELSE '-infinity' END DESC,
        array_position(%s::text[], old.state::text) DESC) AS earlier
"""
_REMOVE = f"""
WITH gone AS (DELETE FROM usage_record WHERE id = ANY(%s::int8[]) RETURNING *)
SELECT {FINISHED_COLUMNS} FROM gone WHERE state = 'finished'
"""  # noqa: S608 - constants only
_PUT_BACK = f"""
WITH back AS (
    INSERT INTO usage_record ({_ALL}) SELECT {_ALL} FROM usage_replacedrecord WHERE id = ANY(%s::int8[]) RETURNING *)
SELECT {FINISHED_COLUMNS} FROM back WHERE state = 'finished'
"""  # noqa: S608 - constants only
_UNCOUNT = "UPDATE usage_source SET watermark = watermark + 1, n_records = n_records - %s WHERE id = %s"


def undo_records(source_id: int, ids: I8) -> tuple[int, int]:
    """Remove the records of one import, and restore what it had replaced; buckets follow. Returns how many of each.

    In the caller's transaction and under its lock of the source. Where it had replaced several versions of others, the
    greatest is restored: the one that would be stored without the import.
    """
    found = pgbinary.fetch_columns(_EARLIER, [Int8Array(ids), list(STATES)])
    change = finished_rows(pgbinary.fetch_columns(_REMOVE, [Int8Array(ids)]), sign=-1)
    n_back = 0
    if found:
        n_back = len(found[0])
        change = change.concatenated(finished_rows(pgbinary.fetch_columns(_PUT_BACK, [Int8Array(found[0])]), sign=1))
    if len(change):
        buckets.apply_delta(source_id, buckets.compute_delta(change))
    with pgbinary.cursor() as cursor:
        cursor.execute(_UNCOUNT, [len(ids) - n_back, source_id])
    return len(ids), n_back
