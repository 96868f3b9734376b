"""Hourly usage by account ("buckets"): compute the changes that records cause and apply them. Nothing else writes
buckets.

Amounts are whole multiples of 2⁻¹⁰ s. Their sums are exact in double precision (below 2⁴³ s an hour), so that a
correction subtracts exactly what was added, in any order of records.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apps.runs.fault_points import fault_point
from apps.usage import changed_hours, kinds
from apps.usage.bucket_deltas import AMOUNTS, HOUR_US, Delta, delta_amounts
from apps.usage.parsers.base import F8, I8, Bytes, Flags, instant
from apps.usage.pgbinary import (
    constant_int4,
    copy_in,
    cursor,
    fetch_columns,
    float8,
    float8_array,
    int4,
    int8_array,
    text,
    text_array,
    timestamptz,
    timestamptz_array,
)

_MOST_SUMS_COMPARED = 500_000  # sums compared at a time: bounds memory
_MANY = 1_000  # new sums for which a look at the stored ones pays

# No other transaction adds buckets of the source meanwhile: the caller holds its lock.
_OF_HOURS = """
SELECT array_agg(hour_at), array_agg(account_id), array_agg(job_class_id) FROM (
    SELECT hour_at, account_id, job_class_id FROM usage_bucket
    WHERE source_id = %s AND hour_at >= %s::timestamptz AND hour_at <= %s::timestamptz LIMIT %s) AS stored
"""
_KEY = "account_id, site, job_class_id, hour_at"
_GIVEN = f"""
unnest(%s::int8[], %s::text[], %s::int8[], %s::timestamptz[], {", ".join(["%s::float8[]"] * len(AMOUNTS))})
AS given({_KEY}, {", ".join(AMOUNTS)})
"""
_UPSERT = f"""
INSERT INTO usage_bucket (source_id, {_KEY}, {", ".join(AMOUNTS)})
SELECT %s::int8, given.* FROM {_GIVEN}
ON CONFLICT (hour_at, source_id, account_id, job_class_id, site)
DO UPDATE SET {", ".join(f"{name} = usage_bucket.{name} + EXCLUDED.{name}" for name in AMOUNTS)}
"""  # noqa: S608 - constants only
_SAME = """
bucket.source_id = %s::int8 AND bucket.account_id = given.account_id AND bucket.site = given.site
AND bucket.job_class_id = given.job_class_id AND bucket.hour_at = given.hour_at
"""
_UPDATE = f"""
UPDATE usage_bucket AS bucket SET {", ".join(f"{name} = bucket.{name} + given.{name}" for name in AMOUNTS)}
FROM {_GIVEN} WHERE {_SAME}
"""  # noqa: S608 - constants only
_DELETE_EMPTY = f"""
DELETE FROM usage_bucket AS bucket USING {_GIVEN} WHERE {_SAME}
    AND {" AND ".join(f"bucket.{name} = 0" for name in AMOUNTS)}
    AND NOT EXISTS (SELECT FROM usage_kindhour AS kind WHERE kind.hour_at = bucket.hour_at
        AND kind.source_id = bucket.source_id AND kind.account_id = bucket.account_id
        AND kind.job_class_id = bucket.job_class_id AND kind.site = bucket.site)
"""  # noqa: S608 - constants only
_WRONG = f"(SELECT DISTINCT {_KEY} FROM usage_proof_bad WHERE NOT is_sealed) AS wrong"  # noqa: S608 - constants only
_DROP_WRONG = f"""
DELETE FROM usage_bucket AS bucket USING {_WRONG} WHERE bucket.source_id = %s
    AND bucket.account_id = wrong.account_id AND bucket.site = wrong.site AND bucket.job_class_id = wrong.job_class_id
    AND bucket.hour_at = wrong.hour_at
"""  # noqa: S608 - constants only
_DROP_WRONG_KINDS = _DROP_WRONG.replace("usage_bucket", "usage_kindhour")
_WRITE_RIGHT_KINDS = f"""
INSERT INTO usage_kindhour (source_id, {_KEY}, kind_id, amount)
SELECT %s::int8, {_KEY}, named.id, amount FROM usage_proof_kind_sum JOIN {_WRONG} USING ({_KEY})
JOIN usage_kind AS named ON named.name = kind
"""  # noqa: S608 - constants only
_WRITE_RIGHT = f"""
INSERT INTO usage_bucket (source_id, {_KEY}, {", ".join(AMOUNTS)})
SELECT %s::int8, {_KEY}, {", ".join(AMOUNTS)} FROM usage_proof_sum JOIN {_WRONG} USING ({_KEY})
"""  # noqa: S608 - constants only

_STORED = f"""
SELECT array_agg(hour_at), array_agg(account_id),
    array_agg((site = %s AND job_class_id = %s)::int::int8), {", ".join(f"array_agg({name})" for name in AMOUNTS)}
FROM usage_bucket WHERE source_id = %s AND hour_at = ANY(%s::timestamptz[])
"""  # noqa: S608 - constants only
_COPY = f"COPY usage_bucket (source_id, {_KEY}, {', '.join(AMOUNTS)}) FROM STDIN (FORMAT BINARY)"
_DELETE_ALIKE = """
DELETE FROM usage_bucket AS bucket USING unnest(%s::timestamptz[], %s::int8[]) AS gone(hour_at, account_id)
WHERE bucket.hour_at = gone.hour_at AND bucket.source_id = %s AND bucket.account_id = gone.account_id
    AND bucket.site = %s AND bucket.job_class_id = %s
"""
_DELETE_OTHERS = """
DELETE FROM usage_bucket
WHERE hour_at = ANY(%s::timestamptz[]) AND source_id = %s AND NOT (site = %s AND job_class_id = %s)
"""


def apply_delta(source_id: int, delta: Delta, *, since_hour: int | None = None) -> None:
    """Add a delta to the stored buckets, in the caller's transaction and under its lock of the source.

    since_hour: first hour in which one of the jobs was pending; it is recorded as changed too.
    """
    if len(delta.hour):
        first = int(delta.hour.min())
        changed_hours.note_hour(source_id, first if since_hour is None else min(first, since_hour))
    kinds.apply_kinds(source_id, delta)
    is_negative = (delta.amounts < 0).any(axis=1)
    if is_negative.any():
        _update(source_id, delta, np.flatnonzero(is_negative))
    if not is_negative.all():
        _add(source_id, delta, np.flatnonzero(~is_negative))
    loses_kind = np.unique(delta.kinds.at[delta.kinds.amount < 0])
    if len(loses_kind):
        _delete_empty(source_id, delta, loses_kind)
    fault_point("usage.ingest.after_buckets")


def _add(source_id: int, delta: Delta, rows: I8) -> None:
    """Add sums: by COPY where no bucket can be stored, which takes a third of the time of INSERT … ON CONFLICT."""
    rows = rows[np.lexsort((delta.job_class_id[rows], delta.account_id[rows], delta.hour[rows]))]  # as in the key
    may_be_stored = _may_be_stored(source_id, delta, rows)
    known, new = rows[may_be_stored], rows[~may_be_stored]
    if len(known):
        with cursor() as db_cursor:
            db_cursor.execute(_UPSERT, [source_id, *_parameters(delta, known)])
    if len(new):
        amounts = delta_amounts(delta)[new]
        columns = (delta.hour[new], delta.account_id[new], delta.job_class_id[new], delta.site[new])
        _copy(source_id, *columns, amounts)


def _may_be_stored(source_id: int, delta: Delta, rows: I8) -> Flags:
    """Which of these sums may have a stored bucket: none of hours, accounts and classes that have none.

    All of them where they are few, or where many more are stored in their hours.
    """
    all_may = np.ones(len(rows), np.bool_)
    if len(rows) < _MANY:
        return all_may
    hour, most = delta.hour[rows], 4 * len(rows)
    span = [instant(int(each) * HOUR_US) for each in (hour.min(), hour.max())]
    columns = fetch_columns(_OF_HOURS, [source_id, *span, most])
    if not columns:
        return ~all_may
    if len(columns[0]) == most:
        return all_may
    stored = (columns[0] // HOUR_US, columns[1], columns[2])
    own = (hour, delta.account_id[rows], delta.job_class_id[rows])
    is_in: Flags = np.isin(*_numbered(own, stored))
    return is_in


def _numbered(left: tuple[I8, ...], right: tuple[I8, ...]) -> tuple[I8, I8]:
    """One number for each combination of values in the columns of both sides."""
    n = len(left[0])
    code = np.zeros(n + len(right[0]), np.int64)
    for columns in zip(left, right, strict=True):
        values, column = np.unique(np.concatenate(columns), return_inverse=True)
        _, code = np.unique(code * len(values) + column, return_inverse=True)
    return code[:n], code[n:]


def rewrite_wrong_buckets(source_id: int) -> int:
    """Replace the buckets that an audit found wrong (see quality/bucket_audit.py) by its sums of the records.

    Returns their number.
    """
    with cursor() as db_cursor:
        n_wrong = db_cursor.execute(f"SELECT count(*), min(hour_at) FROM {_WRONG}").fetchone()  # noqa: S608 - constants only
        if n_wrong and n_wrong[0]:
            changed_hours.note_change(source_id, n_wrong[1])
        db_cursor.execute(_DROP_WRONG, [source_id])
        db_cursor.execute(_WRITE_RIGHT, [source_id])
        db_cursor.execute(_DROP_WRONG_KINDS, [source_id])
        db_cursor.execute(_WRITE_RIGHT_KINDS, [source_id])
    return int(n_wrong[0]) if n_wrong else 0


@dataclass(frozen=True, slots=True)
class ReportedHours:
    """Complete usage of some hours as reported by a peer: one row per account and hour, amounts as in buckets."""

    hours: I8  # since 1970, ascending, without duplicates; an hour without rows is empty
    site: str
    job_class_id: int
    hour: I8  # of each row, since 1970
    account_id: I8
    amounts: F8  # (n, 6)


def replace_hours(source_id: int, reported: ReportedHours) -> I8:
    """Make the stored buckets of these hours equal to the reported ones, in the caller's transaction and lock.

    Returns the hours that changed.
    """
    n_rows = np.searchsorted(np.sort(reported.hour), reported.hours, side="right")
    portion = n_rows // _MOST_SUMS_COMPARED
    changed = [_replace_some(source_id, reported, reported.hours[portion == number]) for number in np.unique(portion)]
    return np.concatenate([np.zeros(0, np.int64), *changed])


def _replace_some(source_id: int, reported: ReportedHours, hours: I8) -> I8:
    rows = np.flatnonzero(np.isin(reported.hour, hours))
    rows = rows[np.lexsort((reported.hour[rows], reported.account_id[rows]))]  # in the order of the index
    stored = _stored_sums(source_id, reported, hours)
    most = max(int(reported.account_id[rows].max(initial=0)), int(stored.account_id.max(initial=0))) + 1
    key = reported.hour[rows] * most + reported.account_id[rows]
    order = np.argsort(key)
    index = np.searchsorted(key[order], stored.hour * most + stored.account_id)
    at = order[np.minimum(index, len(rows) - 1)] if len(rows) else np.zeros(len(index), np.int64)
    is_same = stored.is_alike & bool(len(rows))
    if len(rows):
        is_same &= key[at] == stored.hour * most + stored.account_id
        is_same &= (reported.amounts[rows[at]] == stored.amounts).all(axis=1)
    is_new = np.ones(len(rows), np.bool_)
    is_new[at[is_same]] = False
    gone, added = np.flatnonzero(~is_same), rows[is_new]
    if len(gone):
        _delete_sums(source_id, reported, stored, gone)
    if len(added):
        job_class_id = np.full(len(added), reported.job_class_id, np.int64)
        site = np.full(len(added), reported.site.encode(), f"S{len(reported.site.encode()) or 1}")
        _copy(source_id, reported.hour[added], reported.account_id[added], job_class_id, site, reported.amounts[added])
    fault_point("usage.sums.after_buckets")
    return np.unique(np.concatenate([stored.hour[gone], reported.hour[added]]))


@dataclass(frozen=True, slots=True)
class _StoredSums:
    hour: I8
    account_id: I8
    is_alike: Flags  # whether site and job class equal the reported ones
    amounts: F8


def _stored_sums(source_id: int, reported: ReportedHours, hours: I8) -> _StoredSums:
    parameters = [reported.site, reported.job_class_id, source_id, timestamptz_array(hours * HOUR_US)]
    columns = fetch_columns(_STORED, parameters)
    if not columns:
        none = np.zeros(0, np.int64)
        return _StoredSums(none, none, np.zeros(0, np.bool_), np.zeros((0, len(AMOUNTS))))
    hour_us, account_id, alike, *amounts = columns
    return _StoredSums(hour_us // HOUR_US, account_id, alike.astype(np.bool_), np.stack(amounts, axis=1))


def _delete_sums(source_id: int, reported: ReportedHours, stored: _StoredSums, gone: I8) -> None:
    alike, others = gone[stored.is_alike[gone]], gone[~stored.is_alike[gone]]
    hours, names = stored.hour * HOUR_US, [source_id, reported.site, reported.job_class_id]
    with cursor() as db_cursor:
        if len(alike):
            keys = [timestamptz_array(hours[alike]), int8_array(stored.account_id[alike])]
            db_cursor.execute(_DELETE_ALIKE, [*keys, *names])
        if len(others):
            db_cursor.execute(_DELETE_OTHERS, [timestamptz_array(np.unique(hours[others])), *names])


def _copy(source_id: int, hour: I8, account_id: I8, job_class_id: I8, site: Bytes, amounts: F8) -> None:
    """Insert new buckets."""
    columns = [
        constant_int4(source_id, len(hour)),
        int4(account_id),
        text(site),
        int4(job_class_id),
        timestamptz(hour * HOUR_US),
        *(float8(np.ascontiguousarray(amounts[:, index])) for index in range(len(AMOUNTS))),
    ]
    copy_in(_COPY, columns)


def delete_source_buckets(source_id: int) -> None:
    """Delete all buckets of a source, in the caller's transaction and under its lock."""
    with cursor() as db_cursor:
        db_cursor.execute("DELETE FROM usage_bucket WHERE source_id = %s", [source_id])
        db_cursor.execute("DELETE FROM usage_kindhour WHERE source_id = %s", [source_id])


def _update(source_id: int, delta: Delta, chosen: I8) -> None:
    with cursor() as db_cursor:
        parameters = [*_parameters(delta, chosen), source_id]
        n_changed = db_cursor.execute(_UPDATE, parameters).rowcount
        if n_changed != len(chosen):
            raise RuntimeError(f"{len(chosen) - n_changed} buckets of source {source_id} are missing.")
        db_cursor.execute(_DELETE_EMPTY, parameters)


def _delete_empty(source_id: int, delta: Delta, chosen: I8) -> None:
    """Delete those of these buckets that have nothing left, as they had only amounts by kind."""
    with cursor() as db_cursor:
        db_cursor.execute(_DELETE_EMPTY, [*_parameters(delta, chosen), source_id])


def _parameters(delta: Delta, chosen: I8) -> list[object]:
    amounts = delta_amounts(delta)[chosen]
    return [
        int8_array(delta.account_id[chosen]),
        text_array(delta.site[chosen]),
        int8_array(delta.job_class_id[chosen]),
        timestamptz_array(delta.hour[chosen] * HOUR_US),
        *map(float8_array, amounts.T),
    ]
