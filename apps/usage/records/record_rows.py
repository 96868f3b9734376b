"""Insert records by COPY, delete and restore versions, and return their usage for the buckets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import numpy as np
from django.db import IntegrityError
from psycopg.errors import UniqueViolation

from apps.usage import buckets, changed_hours, pgbinary
from apps.usage.parsers.base import FINISHED, I8, NO_TIME, RUNNING, WITHDRAWN, RecordBatch, microseconds
from apps.usage.pgbinary import Int8Array
from apps.usage.records import partitions
from apps.usage.records.record_keys import OF_KEYS, job_numbers, key_hash, key_parameters

COLUMNS = (
    "key_hash, submit_at, start_at, end_at, revision, cpus, gpus, nodes, mem_mb, billing, requested_s,"
    " source_id, account_id, job_class_id, job_number, restart, run_id, state, cluster, job, array_task, site"
)
MARKS = "is_charge, seen_at"  # rarely set: left to their defaults if no record of a batch has any
_NOTE = "note"
COPY = f"COPY {{table}} ({COLUMNS}) FROM STDIN (FORMAT BINARY)"
_COPY_MARKED = f"COPY {{table}} ({COLUMNS}, {MARKS}) FROM STDIN (FORMAT BINARY)"


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
        pgbinary.constant_int4(source_id, len(batch)),
        pgbinary.int4(account_id),
        pgbinary.int4(job_class_id),
        pgbinary.int4(job_numbers(batch.job)),
        pgbinary.int4(batch.restart),
        pgbinary.constant_int4(run_id, len(batch)),
        pgbinary.int2(batch.state),
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
    columns, query = record_columns(source_id, batch, account_id, job_class_id, run_id), COPY
    is_open = batch.state <= RUNNING
    if is_open.any() or batch.is_charge.any():
        seen_us = np.where(is_open, microseconds(at), NO_TIME)
        columns += [pgbinary.boolean(batch.is_charge), pgbinary.timestamptz(seen_us)]
        query = _COPY_MARKED
    copy_rows(batch, columns, query)


def copy_rows(batch: RecordBatch, columns: list[pgbinary.Column], query: str = COPY) -> None:
    """COPY into each partition itself: to find it for each row takes the server a sixth of the time of the rest."""
    partitions.make_partitions(batch.submit_us)
    for name, rows in partitions.by_partition(batch.submit_us):
        chosen = columns if len(rows) == len(batch) else [column.take(rows) for column in columns]
        with _named_collision(batch):
            pgbinary.copy_in(query.format(table=name), chosen)


@contextmanager
def _named_collision(batch: RecordBatch) -> Iterator[None]:
    """Name the job whose hash another submission has, too: only keys of equal submissions are compared before."""
    try:
        yield
    except IntegrityError as error:
        detail = error.__cause__.diag.message_detail if isinstance(error.__cause__, UniqueViolation) else None
        known = re.search(r"=\(\d+, (\d+), (-?\d+)\)", detail or "")
        if known is None:
            raise
        is_it = (job_numbers(batch.job) == int(known[1])) & (key_hash(batch).view(np.int64) == int(known[2]))
        job = batch.job[np.flatnonzero(is_it)[0]].decode("utf-8", "replace")
        message = f"Job {job} can't be told from another job: the hashes of their keys are equal."
        raise IntegrityError(message) from error


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
WITH gone AS (DELETE FROM usage_record AS record USING {OF_KEYS} RETURNING record.*),
kept AS (
    INSERT INTO usage_replacedrecord ({_ALL}, by_run_id, replaced_at)
    SELECT {_ALL}, %s::int8, %s::timestamptz FROM gone WHERE state = {FINISHED} OR %s::bool)
SELECT {FINISHED_COLUMNS} FROM gone WHERE state = {FINISHED}
"""  # noqa: S608 - constants only


def remove_versions(
    source_id: int, batch: RecordBatch, *, by_run_id: int | None, keep_all: bool, at: datetime
) -> buckets.FinishedRecords:
    """Delete the stored versions of these records, and return their usage, to be subtracted from the buckets.

    Finished versions are archived; with `keep_all` (imports, which can be undone) open ones too.
    """
    parameters = [*key_parameters(source_id, batch), by_run_id, at, keep_all]
    return finished_from_columns(pgbinary.fetch_columns(_REMOVE_VERSIONS, parameters), sign=-1)


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


# Records by id, by a range of the coarse index; ids alone would be sought in it one by one.
OF_IDS = "record.id >= %s AND record.id <= %s AND record.id + 0 = ANY(%s::int8[])"


def id_parameters(ids: I8) -> list[object]:
    return [int(ids.min(initial=2**62)), int(ids.max(initial=0)), Int8Array(ids)]


_EARLIER = f"""
SELECT array_agg(id), array_agg(submit_at) FROM (
    SELECT DISTINCT ON (record.id) old.id, old.submit_at FROM usage_record AS record JOIN usage_replacedrecord AS old
        ON old.by_run_id = record.run_id AND old.job = record.job AND old.source_id = record.source_id
            AND old.cluster = record.cluster AND old.array_task = record.array_task
            AND old.submit_at = record.submit_at AND old.restart = record.restart
    WHERE {OF_IDS} AND old.run_id IS DISTINCT FROM record.run_id
    ORDER BY record.id, old.revision DESC,
        CASE old.state WHEN {WITHDRAWN} THEN 'infinity' WHEN {FINISHED} THEN old.end_at ELSE '-infinity' END DESC,
        old.state DESC) AS earlier
"""  # noqa: S608 - constants only
_FIRST = f"SELECT min(submit_at) FROM usage_record AS record WHERE {OF_IDS}"  # noqa: S608 - constants only
_REMOVE = f"""
WITH gone AS (DELETE FROM usage_record AS record WHERE {OF_IDS} RETURNING *)
SELECT {FINISHED_COLUMNS} FROM gone WHERE state = {FINISHED}
"""  # noqa: S608 - constants only
_RESTORE = f"""
WITH back AS (
    INSERT INTO usage_record ({_ALL}) SELECT {_ALL} FROM usage_replacedrecord WHERE id = ANY(%s::int8[]) RETURNING *)
SELECT {FINISHED_COLUMNS} FROM back WHERE state = {FINISHED}
"""  # noqa: S608 - constants only
_UNCOUNT = "UPDATE usage_source SET watermark = watermark + 1, n_records = n_records - %s WHERE id = %s"


def undo_records(source_id: int, ids: I8) -> tuple[int, int]:
    """Delete records of one import, restore the versions that they replaced, and update buckets. Returns both numbers.

    Runs in the caller's transaction and under its lock of the source. If the import replaced several versions of other
    imports, the latest is restored: the one that would be stored without the import.
    """
    columns = pgbinary.fetch_columns(_EARLIER, id_parameters(ids))
    with pgbinary.cursor() as cursor:
        first_at = (cursor.execute(_FIRST, id_parameters(ids)).fetchone() or (None,))[0]
    if first_at is not None:  # waiting jobs are demand since they were submitted
        changed_hours.note_change(source_id, first_at)
    change = finished_from_columns(pgbinary.fetch_columns(_REMOVE, id_parameters(ids)), sign=-1)
    n_restored = 0
    if columns:
        n_restored = len(columns[0])
        partitions.make_partitions(columns[1])
        restored = pgbinary.fetch_columns(_RESTORE, [Int8Array(columns[0])])
        change = change.concatenated(finished_from_columns(restored, sign=1))
    if len(change):
        buckets.apply_delta(source_id, buckets.compute_delta(change))
    with pgbinary.cursor() as cursor:
        cursor.execute(_UNCOUNT, [len(ids) - n_restored, source_id])
    return len(ids), n_restored
