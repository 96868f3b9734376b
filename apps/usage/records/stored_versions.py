"""Find the stored version of each record of a batch, under the lock of its source."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from django.db import connection

from apps.core.postgresql import join_transaction
from apps.usage import pgbinary
from apps.usage.parsers.base import (
    F8,
    FINISHED,
    I8,
    NO_TIME,
    PENDING,
    RUNNING,
    WITHDRAWN,
    Flags,
    RecordBatch,
    instant,
    microseconds,
)
from apps.usage.pgbinary import int8_array, text_array, timestamptz_array
from apps.usage.records.record_keys import job_numbers, key_hash

VANISHED = "vanished"  # note of an open record that a complete listing didn't contain
# "fsUs": one writer of a source at a time. The source's id is to be filled in.
LOCK_SOURCE = f"SELECT pg_advisory_xact_lock({0x66735573}, %d)"
_WITHDRAWN_END = np.iinfo(np.int64).max  # a withdrawal is later than every version with the same revision

_FIND = f"""
SELECT array_agg(given.ordinal - 1), array_agg(record.id), array_agg(COALESCE(record.revision, 0)),
    array_agg(COALESCE(record.end_at, '-infinity')),
    array_agg(record.state::int8),
    array_agg(COALESCE(record.run_id, 0)::int8 * 8 + (record.kinds IS NOT NULL)::int * 4
        + (record.note = '{VANISHED}')::int * 2 + (
        (record.cluster, record.job, record.array_task, COALESCE(record.restart, 0))
        <> (given.cluster, given.job, given.array_task, given.restart::int4))::int),
    array_agg(COALESCE(record.billing, 0)), array_agg(record.account_id),
    array_agg(COALESCE(record.start_at, '-infinity')), array_agg(COALESCE(record.sluid, 0)),
    array_agg(record.job_class_id), array_agg(COALESCE(record.cpus, 1)), array_agg(COALESCE(record.gpus, 0)),
    array_agg(COALESCE(record.requested_s, 'NaN'))
FROM unnest(%s::int8[], %s::int8[], %s::text[], %s::text[], %s::text[], %s::timestamptz[], %s::int8[])
    WITH ORDINALITY AS given(job_number, key_hash, cluster, job, array_task, submit_at, restart, ordinal)
CROSS JOIN LATERAL (
    SELECT * FROM usage_record AS stored
    WHERE stored.source_id = %s::int4 AND stored.job_number = given.job_number::int4
        AND stored.key_hash = given.key_hash AND stored.submit_at = given.submit_at
        AND stored.submit_at >= %s AND stored.submit_at <= %s
    LIMIT 1) AS record
"""  # noqa: S608 - constants only


@dataclass(slots=True)
class StoredVersions:
    """The stored version of each record of a batch: id is 0 without one, run_id is 0 if no run imported it.

    is_other: a different job is stored under the same hash, and this one can't be.
    """

    id: I8
    revision: I8
    end_us: I8
    state: I8
    run_id: I8
    billing: F8
    account_id: I8
    is_other: Flags
    start_us: I8
    has_kinds: Flags
    sluid: I8  # 0 if none is stored
    has_vanished: Flags
    job_class_id: I8
    cpus: F8
    gpus: F8
    requested_s: F8  # NaN if no time was requested

    def take(self, chosen: I8 | Flags) -> StoredVersions:
        return StoredVersions(*[getattr(self, name)[chosen] for name in StoredVersions.__slots__])

    def put(self, rows: I8, others: StoredVersions) -> None:
        """Let these rows be others, one by one."""
        for name in StoredVersions.__slots__:
            getattr(self, name)[rows] = getattr(others, name)

    @classmethod
    def none(cls, n: int) -> StoredVersions:
        ids, revisions, ends, states, runs, accounts, starts, sluids, job_classes = np.zeros((9, n), np.int64)
        starts += NO_TIME
        other, has_kinds, vanished = np.zeros((3, n), np.bool_)
        billing, cpus, gpus, requested_s = np.zeros((4, n))
        requested_s += np.nan
        return cls(
            *(ids, revisions, ends, states, runs, billing, accounts, other, starts, has_kinds, sluids),
            *(vanished, job_classes, cpus, gpus, requested_s),
        )


def lock_source(source_id: int) -> None:
    """Lock the records and buckets of this source against other writers until the end of the transaction."""
    with connection.cursor() as cursor:
        cursor.execute(LOCK_SOURCE % source_id)


def find_stored(
    source_id: int, batch: RecordBatch, *, last_submit_us: int | None = None, is_listing: bool = False
) -> StoredVersions:
    """Find the stored version of each key by index; sequential scans are disabled, also without table statistics.

    Records submitted after every stored one, which are most, are new without a query. A vanished version ranks like the
    open version that it closed, so any real end replaces it. In a listing it ranks lower still: a job that is listed
    again never vanished.

    last_submit_us: of the stored records, NO_TIME without any, if the caller has read it under the source's lock.
    """
    stored = StoredVersions.none(len(batch))
    chosen = np.flatnonzero(batch.submit_us <= (_last_submit(source_id) if last_submit_us is None else last_submit_us))
    if not len(chosen):
        return stored
    asked = batch if len(chosen) == len(batch) else batch.take(chosen)
    with join_transaction(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('enable_seqscan', 'off', true)")
        numbers = [int8_array(job_numbers(asked.job)), int8_array(key_hash(asked).view(np.int64))]
        keys = [text_array(asked.cluster), text_array(asked.job), text_array(asked.array_task)]
        times = [timestamptz_array(asked.submit_us), int8_array(asked.restart)]
        span = [instant(int(each)) for each in (asked.submit_us.min(), asked.submit_us.max())]
        columns = pgbinary.fetch_columns(_FIND, [*numbers, *keys, *times, source_id, *span])
        cursor.execute("SELECT set_config('enable_seqscan', 'on', true)")
    if columns:
        asked_place, stored_id, revision, end_us, state, run_and_note, billing, account_id, start_us, *more = columns
        index = chosen[asked_place]
        vanished, is_other = (run_and_note & 2).astype(np.bool_), (run_and_note & 1).astype(np.bool_)
        open_state = np.full(len(state), -1) if is_listing else np.where(state == FINISHED, RUNNING, PENDING)
        state = np.where(vanished, open_state, state)
        stored.is_other[index] = is_other
        index, same = index[~is_other], ~is_other
        stored.id[index], stored.revision[index], stored.state[index] = stored_id[same], revision[same], state[same]
        stored.end_us[index] = comparable_end(end_us, state)[same]
        stored.run_id[index] = run_and_note[same] >> 3
        stored.has_kinds[index] = (run_and_note[same] & 4).astype(np.bool_)
        stored.billing[index], stored.account_id[index] = billing[same], account_id[same]
        stored.start_us[index], stored.has_vanished[index] = start_us[same], vanished[same]
        for name, values in zip(("sluid", "job_class_id", "cpus", "gpus", "requested_s"), more, strict=True):
            getattr(stored, name)[index] = values[same]
    return stored


def _last_submit(source_id: int) -> int:
    """Time of the last submission among the stored records; NO_TIME if there are none."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT last_submit_at FROM usage_source WHERE id = %s", [source_id])
        row = cursor.fetchone()
    return NO_TIME if row is None or row[0] is None else microseconds(row[0])


def comparable_end(end_us: I8, state: I8) -> I8:
    return np.where(state == WITHDRAWN, _WITHDRAWN_END, np.where(state == FINISHED, end_us, NO_TIME))
