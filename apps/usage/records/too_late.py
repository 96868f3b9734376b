"""Records that end, or change a job, before the hours that are sealed: they are listed and never counted."""

from __future__ import annotations

from datetime import datetime

import numpy as np

from apps.runs.models import Run
from apps.usage import changed_hours
from apps.usage.parsers.base import FINISHED, I8, NO_TIME, PENDING, RUNNING, WITHDRAWN, Flags, RecordBatch
from apps.usage.pgbinary import cursor, float8_array, int8_array, text_array, timestamptz_array
from apps.usage.records.record_keys import OF_KEYS, key_parameters
from apps.usage.records.stored_versions import StoredVersions

NOTE = "too_late"  # note of an open record whose end arrived too late
_LIST = """
INSERT INTO usage_toolaterecord (source_id, run_id, received_at, cluster, job, array_task, submit_at, restart, revision,
    state, account_id, end_at, cpu_s)
SELECT %s::int8, %s::int8, %s::timestamptz, cluster, job, array_task, submit_at, restart, revision, state, account_id,
    end_at, cpu_s
FROM unnest(%s::text[], %s::text[], %s::text[], %s::timestamptz[], %s::int8[], %s::int8[], %s::int8[], %s::int8[],
        %s::timestamptz[], %s::float8[])
    AS given(cluster, job, array_task, submit_at, restart, revision, state, account_id, end_at, cpu_s)
ON CONFLICT DO NOTHING
"""
_CLOSE = f"""
WITH closed AS (
    UPDATE usage_record AS record SET state = {WITHDRAWN}, end_at = NULL, note = %s FROM {OF_KEYS}
        AND state IN ({PENDING}, {RUNNING})
    RETURNING record.submit_at)
SELECT min(submit_at) FROM closed
"""  # noqa: S608 - constants only


def is_too_late(batch: RecordBatch, stored: StoredVersions, sealed_us: int) -> Flags:
    """Which records ended before the seal, or withdraw or correct a job that began before it and is no longer stored.

    A first report (revision 0) of a job that began before the seal and ended after it is new, and counts.
    """
    ended = (batch.state == FINISHED) & (batch.end_us < sealed_us)
    began = _began_us(batch) < sealed_us
    changes = (batch.state == WITHDRAWN) | ((batch.state == FINISHED) & (batch.revision > 0))
    late: Flags = ended | (began & changes & (stored.id == 0))
    return late


def store_too_late(
    source_id: int, batch: RecordBatch, stored: StoredVersions, account_id: I8, *, run: Run | None, at: datetime
) -> bool:
    """List each late record once, and close the open record that it ends; returns whether there was one."""
    began_us = _began_us(batch)
    end_us = np.where(batch.end_us == NO_TIME, began_us, batch.end_us)
    cpu_s = np.where(batch.state == FINISHED, (end_us - began_us) / 1e6 * batch.cpus, 0.0)
    names = [text_array(batch.cluster), text_array(batch.job), text_array(batch.array_task)]
    times = [timestamptz_array(batch.submit_us), int8_array(batch.restart), int8_array(batch.revision)]
    rest = [int8_array(batch.state), int8_array(account_id), timestamptz_array(end_us), float8_array(cpu_s)]
    with cursor() as db_cursor:
        db_cursor.execute(_LIST, [source_id, run.pk if run else None, at, *names, *times, *rest])
        known = np.flatnonzero((stored.id > 0) & (batch.state == FINISHED))
        if len(known):
            db_cursor.execute(_CLOSE, [NOTE, *key_parameters(source_id, batch.take(known))])
            (first_at,) = db_cursor.fetchone() or (None,)
            if first_at is not None:
                changed_hours.note_change(source_id, first_at)  # it was demand since it was submitted
                return True
    return False


def _began_us(batch: RecordBatch) -> I8:
    return np.where(batch.start_us == NO_TIME, batch.submit_us, batch.start_us)
