"""Records of sealed times: listed with their amount, and never counted.

Records before a source's seal are removed, so a new one may have been counted already.
"""

from __future__ import annotations

from datetime import datetime

import numpy as np

from apps.runs.models import Run
from apps.usage.parsers.base import FINISHED, I8, NO_TIME, STATES, WITHDRAWN, Flags, RecordBatch
from apps.usage.pgbinary import Float8Array, Int8Array, TextArray, TimestamptzArray, cursor
from apps.usage.records.versions import Stored

NOTE = "too_late"  # of an open record whose end came too late
_STATE_NAMES = np.array([name.encode() for name in STATES])


def is_too_late(batch: RecordBatch, stored: Stored, sealed_us: int) -> Flags:
    """Ended before the seal; or withdraws or corrects what began before it and is no longer stored.

    A first report (revision 0) of a job that began before the seal and ended behind it is new, and counts.
    """
    ended = (batch.state == FINISHED) & (batch.end_us < sealed_us)
    began = _began_us(batch) < sealed_us
    changes = (batch.state == WITHDRAWN) | ((batch.state == FINISHED) & (batch.revision > 0))
    late: Flags = ended | (began & changes & (stored.id == 0))
    return late


_LIST = """
INSERT INTO usage_toolaterecord (source_id, run_id, received_at, cluster, job, array_task, submit_at, restart, revision,
    state, account_id, end_at, cpu_s)
SELECT %s::int8, %s::int8, %s::timestamptz, cluster, job, array_task, submit_at, restart, revision, state, account_id,
    end_at, cpu_s
FROM unnest(%s::text[], %s::text[], %s::text[], %s::timestamptz[], %s::int8[], %s::int8[], %s::text[], %s::int8[],
        %s::timestamptz[], %s::float8[])
    AS given(cluster, job, array_task, submit_at, restart, revision, state, account_id, end_at, cpu_s)
ON CONFLICT DO NOTHING
"""
_CLOSE = """
UPDATE usage_record SET state = 'withdrawn', end_at = NULL, note = %s
WHERE id = ANY(%s::int8[]) AND state IN ('pending', 'running')
"""


def list_too_late(
    source_id: int, batch: RecordBatch, stored: Stored, account_id: I8, *, run: Run | None, at: datetime
) -> None:
    """Keep them beside, once each; an open record that one of them ends is open no longer."""
    began_us = _began_us(batch)
    end_us = np.where(batch.end_us == NO_TIME, began_us, batch.end_us)
    cpu_s = np.where(batch.state == FINISHED, (end_us - began_us) / 1e6 * batch.cpus, 0.0)
    names = [TextArray(batch.cluster), TextArray(batch.job), TextArray(batch.array_task)]
    times = [TimestamptzArray(batch.submit_us), Int8Array(batch.restart), Int8Array(batch.revision)]
    rest = [TextArray(_STATE_NAMES[batch.state]), Int8Array(account_id), TimestamptzArray(end_us), Float8Array(cpu_s)]
    with cursor() as found:
        found.execute(_LIST, [source_id, run.pk if run else None, at, *names, *times, *rest])
        known = stored.id[(stored.id > 0) & (batch.state == FINISHED)]
        if len(known):
            found.execute(_CLOSE, [NOTE, Int8Array(known)])


def _began_us(batch: RecordBatch) -> I8:
    return np.where(batch.start_us == NO_TIME, batch.submit_us, batch.start_us)
