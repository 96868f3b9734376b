"""Insert records by COPY, delete and restore versions, and return their usage for the buckets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import numpy as np
from django.db import IntegrityError
from psycopg.errors import UniqueViolation

from apps.core.resource_kinds import kinds_json
from apps.usage import bucket_deltas, buckets, changed_hours, pgbinary
from apps.usage.columns import RATE_ARRAYS
from apps.usage.distinct import distinct_values
from apps.usage.parsers.base import FINISHED, I8, NO_TIME, RUNNING, WITHDRAWN, RecordBatch, microseconds
from apps.usage.pgbinary import int8_array
from apps.usage.records import partitions
from apps.usage.records.record_keys import OF_KEYS, job_numbers, key_hash, key_parameters

_ALL = (
    "key_hash, submit_at, start_at, end_at, revision, cpus, gpus, nodes, mem_mb, billing, requested_s, source_id,"
    " account_id, job_class_id, job_number, restart, run_id, state, cluster, job, array_task, site, is_charge, seen_at,"
    " note, kinds, sluid"
)
_COPY = "COPY {table} ({columns}) FROM STDIN (FORMAT BINARY)"
_MOST_STORED_AMOUNT = 1e12
# Columns that are left out of COPY where all records of a batch have the usual value.
_USUAL = {
    "cpus": (1, pgbinary.float8_unless_one),
    "nodes": (0, pgbinary.float8_unless_zero),
    "mem_mb": (0, pgbinary.float8_unless_zero),
    "billing": (0, pgbinary.float8_unless_zero),
    "revision": (0, pgbinary.int8_unless_zero),
    "restart": (0, pgbinary.int4_unless_zero),
    "sluid": (0, pgbinary.int8_unless_zero),
    "cluster": (b"", pgbinary.text),
    "array_task": (b"", pgbinary.text),
    "is_charge": (False, pgbinary.boolean),
}

_HOLD = """
SELECT 'source', id FROM (SELECT id FROM usage_source WHERE id = %s FOR KEY SHARE) AS held
UNION ALL SELECT 'account', id FROM (
    SELECT id FROM accounts_account WHERE id = ANY(%s::int8[]) ORDER BY id FOR KEY SHARE) AS held
UNION ALL SELECT 'job class', id FROM (
    SELECT id FROM usage_jobclass WHERE id = ANY(%s::int8[]) ORDER BY id FOR KEY SHARE) AS held
"""

FINISHED_COLUMNS = f"""
array_agg((NOT is_charge)::int::int8), array_agg(account_id), array_agg(job_class_id), array_agg(start_at),
array_agg(end_at), {RATE_ARRAYS}, array_agg(site), array_agg(COALESCE(kinds::text, ''))
"""
_REMOVE_VERSIONS = f"""
WITH gone AS (DELETE FROM usage_record AS record USING {OF_KEYS} RETURNING record.*),
kept AS (
    INSERT INTO usage_replacedrecord ({_ALL}, by_run_id, replaced_at)
    SELECT {_ALL}, %s::int8, %s::timestamptz FROM gone WHERE state = {FINISHED} OR %s::bool)
SELECT {FINISHED_COLUMNS} FROM gone WHERE state = {FINISHED}
"""  # noqa: S608 - constants only

# Records by id, by a range of the coarse index; ids alone would be sought in it one by one.
OF_IDS = "record.id >= %s AND record.id <= %s AND record.id + 0 = ANY(%s::int8[])"

_EARLIER = f"""
SELECT array_agg(id), array_agg(submit_at) FROM (
    SELECT DISTINCT ON (record.id) old.id, old.submit_at FROM usage_record AS record JOIN usage_replacedrecord AS old
        ON old.by_run_id = record.run_id AND old.job = record.job AND old.source_id = record.source_id
            AND old.cluster = record.cluster AND old.array_task = record.array_task
            AND old.submit_at = record.submit_at AND COALESCE(old.restart, 0) = COALESCE(record.restart, 0)
    WHERE {OF_IDS} AND old.run_id IS DISTINCT FROM record.run_id
    ORDER BY record.id, COALESCE(old.revision, 0) DESC,
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


def record_columns(
    source_id: int, batch: RecordBatch, account_id: I8, job_class_id: I8, run_id: int | None, at: datetime
) -> dict[str, pgbinary.Column]:
    """The columns of COPY for a batch, but for those of which all its records have the default."""
    columns = {
        "key_hash": pgbinary.int8(key_hash(batch).view(np.int64)),
        "submit_at": pgbinary.timestamptz(batch.submit_us),
        "start_at": pgbinary.timestamptz(batch.start_us),
        "end_at": pgbinary.timestamptz(batch.end_us),
        "source_id": pgbinary.constant_int4(source_id, len(batch)),
        "account_id": pgbinary.int4(account_id),
        "job_class_id": pgbinary.int4(job_class_id),
        "job_number": pgbinary.int4(job_numbers(batch.job)),
        "state": pgbinary.int2(batch.state),
        "job": pgbinary.text(batch.job),
        "site": pgbinary.text(batch.site),
    }
    for name, (usual, encode) in _USUAL.items():
        if ((values := getattr(batch, name)) != usual).any():
            columns[name] = encode(values)
    if run_id is not None:
        columns["run_id"] = pgbinary.constant_int4(run_id, len(batch))
    # 0 is stored of records without processors: the index of odd records has both, as former releases stored them.
    gpus = np.where((batch.gpus == 0) & (batch.cpus != 0), np.nan, batch.gpus)
    for name, values in (("gpus", gpus), ("requested_s", batch.requested_s)):
        if not np.isnan(values).all():
            columns[name] = pgbinary.float8_unless_nan(values)
    is_open = batch.state <= RUNNING
    if is_open.any():
        columns["seen_at"] = pgbinary.timestamptz(np.where(is_open, microseconds(at), NO_TIME))
    if batch.kind.any():
        texts = np.array([kinds_json(kinds) for kinds in batch.kinds])
        columns["kinds"] = pgbinary.json_or_null(texts[batch.kind])
    return columns


def copy_records(
    source_id: int, batch: RecordBatch, account_id: I8, job_class_id: I8, run_id: int | None, at: datetime
) -> None:
    """Insert records; open jobs get `at` as `seen_at`.

    Raises:
        IntegrityError: a value that no reader lets pass, or a reference to a row that doesn't exist.
    """
    _refuse_impossible(batch)
    hold_references(source_id, account_id, job_class_id)
    copy_rows(batch, record_columns(source_id, batch, account_id, job_class_id, run_id, at))


def copy_rows(batch: RecordBatch, columns: Mapping[str, pgbinary.Column]) -> None:
    """COPY into each partition itself: to find it for each row takes the server a sixth of the time of the rest."""
    partitions.make_partitions(batch.submit_us)
    for name, rows in partitions.by_partition(batch.submit_us):
        chosen = list(columns.values())
        if len(rows) < len(batch):
            chosen = [column.take(rows) for column in chosen]
        with _named_collision(batch):
            pgbinary.copy_in(_COPY.format(table=name, columns=", ".join(columns)), chosen)


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


def _refuse_impossible(batch: RecordBatch) -> None:
    """The constraints of a row, checked for all rows at once."""
    for name in ("cpus", "gpus", "nodes", "mem_mb", "billing"):
        values = getattr(batch, name)
        if not ((values >= 0) & (values <= _MOST_STORED_AMOUNT)).all():
            raise IntegrityError(f"{name} of a record is below 0, over {_MOST_STORED_AMOUNT:.0e}, or no number.")
    has_start, has_end = batch.start_us != NO_TIME, batch.end_us != NO_TIME
    if (has_start & has_end & (batch.end_us < batch.start_us)).any():
        raise IntegrityError("A record ends before it starts.")
    if ((batch.state == FINISHED) & ~(has_start & has_end)).any():
        raise IntegrityError("A finished record has no start or no end.")
    if ((batch.restart < 0) | (batch.restart >= 2**31)).any():
        raise IntegrityError("restart of a record is below 0, or doesn't fit into 4 bytes.")


def hold_references(source_id: int, account_id: I8, job_class_id: I8) -> None:
    """Check that these rows exist, and keep them until the end of the transaction, as a foreign key does.

    Raises:
        IntegrityError: one doesn't.
    """
    wanted = {
        "source": {source_id},
        "account": set(distinct_values(account_id).tolist()),
        "job class": set(distinct_values(job_class_id).tolist()),
    }
    with pgbinary.cursor() as cursor:
        rows = cursor.execute(_HOLD, [source_id, list(wanted["account"]), list(wanted["job class"])]).fetchall()
    for name, row_id in rows:
        wanted[name].discard(row_id)
    for name, missing in wanted.items():
        if missing:
            raise IntegrityError(f"There is no {name} {min(missing)}.")


def finished_rows(batch: RecordBatch, account_id: I8, job_class_id: I8) -> bucket_deltas.FinishedRecords:
    """The finished records of a batch, to be added to the buckets."""
    chosen = np.flatnonzero(batch.state == FINISHED)
    return bucket_deltas.FinishedRecords(
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
        kinds=bucket_deltas.kind_rates(batch.kind[chosen], batch.kinds, batch.end_us[chosen] - batch.start_us[chosen]),
    )


def remove_versions(
    source_id: int, batch: RecordBatch, *, by_run_id: int | None, keep_all: bool, at: datetime
) -> bucket_deltas.FinishedRecords:
    """Delete the stored versions of these records, and return their usage, to be subtracted from the buckets.

    Finished versions are archived; with `keep_all` (imports, which can be undone) open ones too.
    """
    parameters = [*key_parameters(source_id, batch), by_run_id, at, keep_all]
    return finished_from_columns(pgbinary.fetch_columns(_REMOVE_VERSIONS, parameters), sign=-1)


def finished_from_columns(columns: list[Any], *, sign: int) -> bucket_deltas.FinishedRecords:
    """Finished records from the columns of FINISHED_COLUMNS, to be added (+1) or subtracted (−1)."""
    if not columns:
        columns = [np.zeros(0, np.int64)] * 5 + [np.zeros(0)] * 5 + [[], []]
    is_job, account_id, job_class_id, start_us, end_us, cpus, gpus, mem_mb, nodes, billing, site, kinds = columns
    return bucket_deltas.FinishedRecords(
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
        kinds=bucket_deltas.kind_rates(*bucket_deltas.stored_kinds(kinds), end_us - start_us),
    )


def id_parameters(ids: I8) -> list[object]:
    return [int(ids.min(initial=2**62)), int(ids.max(initial=0)), int8_array(ids)]


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
        restored = pgbinary.fetch_columns(_RESTORE, [int8_array(columns[0])])
        change = change.concatenated(finished_from_columns(restored, sign=1))
    if len(change):
        buckets.apply_delta(source_id, bucket_deltas.compute_delta(change))
    with pgbinary.cursor() as cursor:
        cursor.execute(_UNCOUNT, [len(ids) - n_restored, source_id])
    return len(ids), n_restored
