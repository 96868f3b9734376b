"""The key of a record as two numbers: its job's number, and a hash of all of the key.

The key is (source, cluster, job, array task, submission, restart). Job numbers rise with time, so that new records
go to the end of the index, and a job is found by its number. Lookups compare the texts too: equal numbers are no proof.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from apps.core.strings import mix
from apps.usage.parsers.base import I8, Bytes, RecordBatch, instant
from apps.usage.pgbinary import int8_array, timestamptz_array

U8 = np.ndarray[tuple[int], np.dtype[np.uint64]]
_MOST_NUMBERS = 2**31

# The stored records of these keys: `record` is the table, and `key_parameters` the parameters. The span of submissions
# leaves out the other partitions before they are locked.
OF_KEYS = """
unnest(%s::timestamptz[], %s::int8[], %s::int8[]) AS key(submit_at, job_number, key_hash)
WHERE record.source_id = %s::int4 AND record.submit_at >= %s AND record.submit_at <= %s
    AND record.submit_at = key.submit_at AND record.job_number = key.job_number::int4
    AND record.key_hash = key.key_hash
"""


def key_parameters(source_id: int, batch: RecordBatch) -> list[object]:
    numbers = [int8_array(job_numbers(batch.job)), int8_array(key_hash(batch).view(np.int64))]
    span = [instant(int(each)) for each in (batch.submit_us.min(), batch.submit_us.max())]
    return [timestamptz_array(batch.submit_us), *numbers, source_id, *span]


def job_numbers(jobs: Bytes) -> I8:
    """The digits with which a job's name begins, modulo 2³¹; a hash of a name without any."""
    width = max(jobs.dtype.itemsize, 1)
    letters: np.ndarray[Any, np.dtype[np.uint8]] = np.ascontiguousarray(jobs).view(np.uint8).reshape(len(jobs), width)
    number, is_number = np.zeros(len(jobs), np.int64), np.ones(len(jobs), np.bool_)
    for column in letters.T:
        digit = column - np.uint8(ord("0"))  # of another letter: 10 or more
        is_number &= digit < 10
        if not is_number.any():
            break
        number = np.where(is_number, (number * 10 + digit) % _MOST_NUMBERS, number)
    is_name = letters[:, 0] - np.uint8(ord("0")) >= 10
    if is_name.any():
        hashed = _mixed_in(np.zeros(len(jobs), np.uint64), jobs)
        number = np.where(is_name, (hashed % np.uint64(_MOST_NUMBERS)).astype(np.int64), number)
    return number


def key_hash(batch: RecordBatch) -> U8:
    """64-bit hash of each key within its source."""
    mixed = mix(batch.submit_us.view(np.uint64))
    mixed = mix(mixed ^ batch.restart.view(np.uint64))
    for texts in (batch.job, batch.array_task, batch.cluster):
        mixed = _mixed_in(mixed, texts)
    return mixed


def _mixed_in(mixed: U8, texts: Bytes) -> U8:
    mixed = mix(mixed)
    for word in _words(texts):  # zero after the end of a text, and must not depend on the column's width
        mixed = np.where(word != 0, mix(mixed ^ word), mixed)
    return mixed


def _words(texts: Bytes) -> list[U8]:
    width = -(-max(texts.dtype.itemsize, 1) // 8) * 8
    return list(np.ascontiguousarray(texts.astype(f"S{width}")).view("<u8").reshape(len(texts), width // 8).T)
