"""The number of accounts with usage of each source, without reading all buckets whenever some change.

The first hour of each account is kept. After a change, the accounts that begin in the changed hours or later are read
again; those that begin before are still there.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable

import numpy as np
import numpy.typing as npt
from django.db import connection

from apps.core.derived_state import in_memory
from apps.core.postgresql import consistent_read
from apps.usage.changed_hours import ReadMarks
from apps.usage.models import Source
from apps.usage.parsers.base import I8
from apps.usage.pgbinary import fetch_columns

DERIVED_STATE = (
    in_memory(
        "account_counts",
        holds="number of accounts with usage by source",
        key="start and identity of the database; id and watermark of each source",
        inputs="buckets",
        range="all hours",
        ends="accounts from a changed hour on are read again",
    ),
)

_MOST_KEPT_ACCOUNTS = 4_000_000  # accounts, of 12 bytes
_HOUR_US = 3_600_000_000
_READ = """
SELECT array_agg(source_id), array_agg(account_id), array_agg(hour_at) FROM (
    SELECT source_id, account_id, min(hour_at) AS hour_at FROM usage_bucket
    WHERE hour_at >= to_timestamp(%s) GROUP BY source_id, account_id) AS begun
"""
_COUNT = """
SELECT source_id, count(*) FROM (SELECT DISTINCT source_id, account_id FROM usage_bucket WHERE source_id = ANY(%s))
    AS seen GROUP BY source_id
"""


class AccountCounts:
    """The first hour since 1970 of each source's accounts, ascending by source and account (packed into one number)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._marks = ReadMarks()
        self._account: I8 = np.zeros(0, np.int64)
        self._first_hour: npt.NDArray[np.int32] = np.zeros(0, np.int32)

    def count(self, source_ids: Collection[int]) -> dict[int, int]:
        """By source. Inside a transaction, which may have written buckets itself, all buckets of them are read."""
        with self._lock, consistent_read() as may_keep:
            if not may_keep:
                return _count_all(source_ids)
            archived = set(Source.all_objects.exclude(archived_at=None).values_list("pk", flat=True))
            self._follow()
            counts = self._counts(set(source_ids) - archived)
            if len(self._account) > _MOST_KEPT_ACCOUNTS:
                self._forget()
        return counts | _count_all(archived & set(source_ids))

    def _follow(self) -> None:
        changed_hour = self._marks.first_changed_hour()
        if changed_hour is None:
            return
        stays = self._first_hour < changed_hour
        account, first_hour = self._account[stays], self._first_hour[stays]
        columns = fetch_columns(_READ, [changed_hour * 3600])
        if columns:
            source_id, account_id, hour_us = columns
            read = (source_id.astype(np.int64) << 32) + account_id
            is_new = ~np.isin(read, account, assume_unique=True)
            account = np.concatenate([account, read[is_new]])
            first_hour = np.concatenate([first_hour, (hour_us[is_new] // _HOUR_US).astype(np.int32)])
            order = np.argsort(account)
            account, first_hour = account[order], first_hour[order]
        self._account, self._first_hour = account, first_hour

    def _counts(self, source_ids: Iterable[int]) -> dict[int, int]:
        ids: I8 = np.array(sorted(source_ids), np.int64)
        n = np.searchsorted(self._account, (ids + 1) << 32) - np.searchsorted(self._account, ids << 32)
        return dict(zip(ids.tolist(), n.tolist(), strict=True))


def _count_all(source_ids: Collection[int]) -> dict[int, int]:
    if not source_ids:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, [list(source_ids)])
        return dict(cursor.fetchall())


account_counts = AccountCounts()
