"""Insert records by COPY, delete and restore versions, and return their usage for the buckets."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
from django.db import IntegrityError

from apps.usage import buckets, pgbinary
from apps.usage.parsers.base import FINISHED, I8, NO_TIME, RUNNING, STATES, RecordBatch, microseconds
from apps.usage.pgbinary import Int8Array
from apps.usage.records.record_keys import job_numbers, key_hash

_STATE_NAMES = np.array([name.encode() for name in STATES])
COLUMNS = (
    "key_hash, submit_at, start_at, end_at, revision, cpus, gpus, nodes, mem_mb, billing, requested_s, run_id,"
    " source_id, account_id, job_class_id, job_number, restart, state, cluster, job, array_task, site"
)
MARKS = "is_charge, seen_at"  # rarely set: left to their defaults if no record of a batch has any
_NOTE = "note"
COPY = f"COPY usage_record ({COLUMNS}) FROM STDIN (FORMAT BINARY)"
_COPY_MARKED = f"COPY usage_record ({COLUMNS}, {MARKS}) FROM STDIN (FORMAT BINARY)"


def record_columns(
    source_id: int, batch: RecordBatch, account_id: I8, job_class_id: I8, run_id: int | None
) -> list[pgbinary.Column]:
    """The columns of COPY for a batch, in its order."""
    return [
        pgbinary.int8(key_hash(batch).view(np.int64)),
        pgbinary.timestamptz(batch.submit_us),
        pgbinary.timestamptz(batch.start_us),
        pgbinary.timestamptz(batch.end_us),
        pgbinary.int8(batch.revision),
        pgbinary.float8(batch.cpus),
        pgbinary.float8(batch.gpus),
        pgbinary.float8(batch.nodes),
        pgbinary.float8(batch.mem_mb),
        pgbinary.float8(batch.billing),
        pgbinary.float8(batch.requested_s, nan_is_null=True),
        pgbinary.constant_int8(run_id, len(batch)),
        pgbinary.constant_int4(source_id, len(batch)),
        pgbinary.int4(account_id),
        pgbinary.int4(job_class_id),
        pgbinary.int4(job_numbers(batch.job)),
        pgbinary.int4(batch.restart),
        pgbinary.text(_STATE_NAMES[batch.state]),
        pgbinary.text(batch.cluster),
        pgbinary.text(batch.job),
        pgbinary.text(batch.array_task),
        pgbinary.text(batch.site),
    ]


def copy_records(
    source_id: int, batch: RecordBatch, account_id: I8, job_class_id: I8, run_id: int | None, at: datetime
) -> None:
    """Insert records; open jobs get `at` as `seen_at`.

    Raises:
        IntegrityError: a value that no reader lets pass, or a reference to a row that doesn't exist.
    """
    _refuse_impossible(batch)
    hold_references(source_id, account_id, job_class_id)
    columns = record_columns(source_id, batch, account_id, job_class_id, run_id)
    is_open = batch.state <= RUNNING
    if not (is_open.any() or batch.is_charge.any()):
        pgbinary.copy_in(COPY, columns)
        return
    seen_us = np.where(is_open, microseconds(at), NO_TIME)
    pgbinary.copy_in(_COPY_MARKED, [*columns, pgbinary.boolean(batch.is_charge), pgbinary.timestamptz(seen_us)])


_MOST = 1e12


def _refuse_impossible(batch: RecordBatch) -> None:
    """The constraints of a row, checked for all rows at once."""
    for name in ("cpus", "gpus", "nodes", "mem_mb", "billing"):
        values = getattr(batch, name)
        if not ((values >= 0) & (values <= _MOST)).all():
            raise IntegrityError(f"{name} of a record is below 0, over {_MOST:.0e}, or no number.")
    has_start, has_end = batch.start_us != NO_TIME, batch.end_us != NO_TIME
    if (has_start & has_end & (batch.end_us < batch.start_us)).any():
        raise IntegrityError("A record ends before it starts.")
    if ((batch.state == FINISHED) & ~(has_start & has_end)).any():
        raise IntegrityError("A finished record has no start or no end.")
    if (batch.restart < 0).any():
        raise IntegrityError("restart of a record is below 0.")


_HOLD = """
SELECT 'source', id FROM (SELECT id FROM usage_source WHERE id = %s FOR KEY SHARE) AS held
UNION ALL SELECT 'account', id FROM (
    SELECT id FROM accounts_account WHERE id = ANY(%s::int8[]) ORDER BY id FOR KEY SHARE) AS held
UNION ALL SELECT 'job class', id FROM (
    SELECT id FROM usage_jobclass WHERE id = ANY(%s::int8[]) ORDER BY id FOR KEY SHARE) AS held
"""


def hold_references(source_id: int, account_id: I8, job_class_id: I8) -> None:
    """Check that these rows exist, and keep them until the end of the transaction, as a foreign key does.

    Raises:
        IntegrityError: one doesn't.
    """
    wanted = {
        "source": {source_id},
        "account": set(np.unique(account_id).tolist()),
        "job class": set(np.unique(job_class_id).tolist()),
    }
    with pgbinary.cursor() as cursor:
        rows = cursor.execute(_HOLD, [source_id, list(wanted["account"]), list(wanted["job class"])]).fetchall()
    for name, row_id in rows:
        wanted[name].discard(row_id)
    for name, missing in wanted.items():
        if missing:
            raise IntegrityError(f"There is no {name} {min(missing)}.")


def finished_rows(batch: RecordBatch, account_id: I8, job_class_id: I8) -> buckets.FinishedRecords:
    """The finished records of a batch, to be added to the buckets."""
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
    """Delete replaced versions, and return their usage, to be subtracted from the buckets.

    Finished versions are archived; with `keep_all` (imports, which can be undone) open ones too.
    """
    return finished_from_columns(
        pgbinary.fetch_columns(_REMOVE_VERSIONS, [Int8Array(ids), by_run_id, at, keep_all]), sign=-1
    )


def finished_from_columns(columns: list[Any], *, sign: int) -> buckets.FinishedRecords:
    """Finished records from the columns of FINISHED_COLUMNS, to be added (+1) or subtracted (−1)."""
    if not columns:
        columns = [np.zeros(0, np.int64)] * 5 + [np.zeros(0)] * 5 + [[]]
    is_job, account_id, job_class_id, start_us, end_us, cpus, gpus, mem_mb, nodes, billing, site = columns
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
_RESTORE = f"""
WITH back AS (
    INSERT INTO usage_record ({_ALL}) SELECT {_ALL} FROM usage_replacedrecord WHERE id = ANY(%s::int8[]) RETURNING *)
SELECT {FINISHED_COLUMNS} FROM back WHERE state = 'finished'
"""  # noqa: S608 - constants only
_UNCOUNT = "UPDATE usage_source SET watermark = watermark + 1, n_records = n_records - %s WHERE id = %s"


def undo_records(source_id: int, ids: I8) -> tuple[int, int]:
    """Delete records of one import, restore the versions that they replaced, and update buckets. Returns both numbers.

    Runs in the caller's transaction and under its lock of the source. If the import replaced several versions of other
    imports, the latest is restored: the one that would be stored without the import.
    """
    columns = pgbinary.fetch_columns(_EARLIER, [Int8Array(ids), list(STATES)])
    change = finished_from_columns(pgbinary.fetch_columns(_REMOVE, [Int8Array(ids)]), sign=-1)
    n_restored = 0
    if columns:
        n_restored = len(columns[0])
        restored = pgbinary.fetch_columns(_RESTORE, [Int8Array(columns[0])])
        change = change.concatenated(finished_from_columns(restored, sign=1))
    if len(change):
        buckets.apply_delta(source_id, buckets.compute_delta(change))
    with pgbinary.cursor() as cursor:
        cursor.execute(_UNCOUNT, [len(ids) - n_restored, source_id])
    return len(ids), n_restored
