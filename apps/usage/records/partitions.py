"""Partitions of the table of records by the time of submission: a month each, a year before 2020.

Records of one key have one submission, and so one partition. The writer makes those of a batch before it copies, and
copies into them directly. Retention drops a partition of which nothing is left to keep. A shared lock of writers, which
`drop` must have for itself, keeps a partition from going between the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np
from django.db import connection

from apps.usage.distinct import distinct_values
from apps.usage.parsers.base import I8, microseconds

TABLE = "usage_record"
_LOCK = 0x6673_7250  # "fsrP"
HOLD = f"SELECT pg_advisory_xact_lock_shared({_LOCK})"  # by writers, until the end of their transaction
_FIRST, _BY_MONTH, _END = ((year - 1970) * 12 for year in (2000, 2020, 2100))  # months since 1970

# In one round trip; the second statement sees what the first one waited for.
_MISSING = f"{HOLD}; SELECT name FROM unnest(%s::text[]) AS name WHERE to_regclass(name) IS NULL"  # noqa: S608


def partitions_of(submit_us: I8) -> I8:
    """The partition of each record: the first month of it since 1970."""
    month: I8 = submit_us.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
    by_year = np.where(month < _BY_MONTH, month // 12 * 12, month)
    return np.where(month < _FIRST, _FIRST - 1, np.minimum(by_year, _END))


def name_of(partition: int) -> str:
    if partition < _FIRST:
        return f"{TABLE}_before"
    if partition >= _END:
        return f"{TABLE}_after"
    year, month = 1970 + partition // 12, partition % 12 + 1
    return f"{TABLE}_{year}" if partition < _BY_MONTH else f"{TABLE}_{year}_{month:02}"


def bounds_of(partition: int) -> tuple[datetime | None, datetime | None]:
    """First submission in it, and the first behind it; None without a bound."""
    if partition < _FIRST:
        return None, _instant(_FIRST)
    if partition >= _END:
        return _instant(_END), None
    return _instant(partition), _instant(partition + (12 if partition < _BY_MONTH else 1))


def _instant(month: int) -> datetime:
    return datetime(1970 + month // 12, month % 12 + 1, 1, tzinfo=UTC)


def make_partitions(submit_us: I8, *, until: datetime | None = None) -> None:
    """Make those that records of these submissions need, in the caller's transaction or at once; most are there.

    It waits for no reader or writer of records, only for others that make one: at once, that takes a moment. until:
    leave out later ones, whose records are rejected.
    """
    if until is not None:
        submit_us = submit_us[submit_us <= microseconds(until)]
    named = {name_of(each): each for each in _distinct_partitions(submit_us)}
    with connection.cursor() as cursor:
        cursor.execute(_MISSING, [list(named)])
        cursor.nextset()
        for (name,) in sorted(cursor.fetchall()):
            cursor.execute("SELECT usage_make_partition(%s, %s, %s, %s)", [TABLE, name, *bounds_of(named[name])])


def by_partition(submit_us: I8) -> Iterator[tuple[str, I8]]:
    """Names of the partitions of records, each with the places of its records."""
    distinct = _distinct_partitions(submit_us)
    if len(distinct) == 1:
        yield name_of(distinct[0]), np.arange(len(submit_us))
        return
    partition = partitions_of(submit_us)
    for each in distinct:
        yield name_of(each), np.flatnonzero(partition == each)


def _distinct_partitions(submit_us: I8) -> list[int]:
    """The partitions of these records, ascending: one if it is that of the first and the last submission."""
    if not len(submit_us):
        return []
    first, last = partitions_of(np.array([submit_us.min(), submit_us.max()])).tolist()
    return [first] if first == last else distinct_values(partitions_of(submit_us)).tolist()


def list_partitions() -> list[tuple[str, datetime | None]]:
    """Names of all partitions, and the first submission behind each (None without a bound), oldest first."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass", [TABLE])
        names = {name for (name,) in cursor.fetchall()}
    known = [_FIRST - 1, *range(_FIRST, _BY_MONTH, 12), *range(_BY_MONTH, _END + 1)]
    return [(name_of(each), bounds_of(each)[1]) for each in known if name_of(each) in names]


def hold_alone() -> bool:
    """Keep writers away until the end of the transaction; False if one is at work."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK])
        return bool(cursor.fetchone()[0])


def drop(name: str) -> None:
    """Remove a partition of which nothing is kept, after `hold_alone`. name: of `list_partitions`."""
    with connection.cursor() as cursor:
        cursor.execute(f'ALTER TABLE {TABLE} DETACH PARTITION "{name}"')
        cursor.execute(f'DROP TABLE "{name}"')
