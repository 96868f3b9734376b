"""Demand that is known: what jobs that waited on a day asked for, from the records that are still there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from django.db import connection

from apps.analytics.series.calendar import Day
from apps.priorities.metering.usage import SourceRow
from apps.usage.parsers.base import NO_TIME
from apps.usage.pgbinary import fetch_columns

F8 = npt.NDArray[np.float64]
I1 = npt.NDArray[np.int8]
I4 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int64]

_RECORDS_AT_A_TIME = 200_000
_FEW_DAYS_S = 46 * 86_400  # found by time; more of them are read once, in the order of their rows
_MOST_PIECES = 2_000_000  # days of jobs spread at a time

# A job without a requested time requested its run time; a second of a core is the least that shows.
_WAITED = """
SELECT array_agg(account_id), array_agg(submit_at), array_agg(COALESCE(start_at, '-infinity')),
    array_agg(GREATEST(cpus, 1) * GREATEST(COALESCE(requested_s, EXTRACT(epoch FROM end_at - start_at)::float8, 1), 1))
FROM usage_record WHERE {where} AND state <> 'withdrawn' AND NOT is_charge
"""
_BY_ID = """id > %s AND id <= %s AND submit_at < %s AND (start_at > submit_at AND start_at > %s OR state = 'pending')"""
_BY_TIME = "submit_at < %s AND start_at > %s AND start_at > submit_at"
_OPEN = "NOT (state = 'finished') AND state = 'pending' AND submit_at < %s"
# Sources that report submit times do so for nearly all records: some thousands show one.
_TELLS = """
SELECT source.id, CASE
    WHEN EXISTS (
        SELECT FROM (SELECT submit_at, start_at, state FROM usage_record WHERE source_id = source.id LIMIT 20000) AS one
        WHERE submit_at < start_at OR state = 'pending') THEN 1
    WHEN EXISTS (SELECT FROM usage_record WHERE source_id = source.id) OR sealed_before_at IS NOT NULL THEN 0
    ELSE -1 END, COALESCE(EXTRACT(epoch FROM sealed_before_at), '-infinity')::float8
FROM usage_source AS source
"""


class Waiting:
    """Of some days; `account_ids` ascending."""

    def __init__(self, days: Sequence[Day], account_ids: I8) -> None:
        self._n_accounts = len(account_ids)
        self._of_day: dict[int, list[tuple[I4, F8]]] = defaultdict(list)
        if days:
            for columns in _read(days):
                self._spread(days, account_ids, *columns)

    def on(self, day: Day) -> F8 | None:
        """Core-seconds of each account, None where no job waited."""
        found = self._of_day.get(day.from_s)
        if found is None:
            return None
        total = np.zeros(self._n_accounts)
        for place, core_s in found:
            total += np.bincount(place, weights=core_s, minlength=self._n_accounts)
        return total

    def _spread(
        self, days: Sequence[Day], account_ids: I8, account: I8, submit_us: I8, start_us: I8, core_s: F8
    ) -> None:
        from_us = np.array([day.from_s for day in days], np.int64) * 1_000_000
        to_us = np.array([day.to_s for day in days], np.int64) * 1_000_000
        first = np.searchsorted(to_us, submit_us, side="right")
        last = np.searchsorted(from_us, np.where(start_us == NO_TIME, to_us[-1], start_us), side="left") - 1
        place = np.searchsorted(account_ids, account)
        there = np.flatnonzero((last >= first) & (place < len(account_ids)))
        there = there[
            account_ids[place[there]] == account[there]
        ]  # an account that came since waits for the next build
        n_days = (last - first + 1)[there]
        portion = (np.cumsum(n_days) - n_days) // _MOST_PIECES
        for number in range(int(portion[-1]) + 1 if len(portion) else 0):
            chosen = portion == number
            self._add(days, place[there[chosen]], first[there[chosen]], n_days[chosen], core_s[there[chosen]])

    def _add(self, days: Sequence[Day], place: I8, first: I8, n_days: I8, core_s: F8) -> None:
        ordinal = np.arange(int(n_days.sum())) - np.repeat(np.cumsum(n_days) - n_days, n_days)
        key = (np.repeat(first, n_days) + ordinal) * self._n_accounts + np.repeat(place, n_days)
        found, at = np.unique(key, return_inverse=True)
        sums = np.bincount(at, weights=np.repeat(core_s, n_days), minlength=len(found))
        day, where = np.divmod(found, self._n_accounts)
        starts = np.flatnonzero(np.diff(day, prepend=-1))
        for begin, end in zip(starts.tolist(), [*starts[1:].tolist(), len(day)], strict=True):
            kept = self._of_day[days[int(day[begin])].from_s]
            kept.append((where[begin:end].astype(np.int32), sums[begin:end].astype(np.float64)))


class SubmitTimeSources:
    """Which sources report submit times, and until when their records have been deleted."""

    def __init__(self, sources: Sequence[SourceRow]) -> None:
        with connection.cursor() as cursor:
            cursor.execute(_TELLS)
            known = {source_id: (tells, sealed_s) for source_id, tells, sealed_s in cursor.fetchall()}
        self._tells = np.array([known[each.id][0] for each in sources], np.int8)
        self._sealed_s = np.array([known[each.id][1] for each in sources], np.float64)

    def on(self, day: Day) -> I1:
        """(sources,) see Standing.values."""
        return np.where((self._tells == 1) & (self._sealed_s > day.from_s), 0, self._tells).astype(np.int8)

    def is_sealed(self, day: Day) -> bool:
        """Whether records that waited on the day may be gone."""
        return bool((self._sealed_s > day.from_s).any())


def _read(days: Sequence[Day]) -> Iterator[list[Any]]:
    from_at, to_at = days[0].from_at, days[-1].to_at
    if days[-1].to_s - days[0].from_s <= _FEW_DAYS_S:
        for where, parameters in ((_BY_TIME, [to_at, from_at]), (_OPEN, [to_at])):
            found = fetch_columns(_WAITED.format(where=where), parameters)
            if found:
                yield found
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT COALESCE(min(id), 1), COALESCE(max(id), 0) FROM usage_record")
        first_id, last_id = cursor.fetchone()
    for after_id in range(first_id - 1, last_id, _RECORDS_AT_A_TIME):
        found = fetch_columns(_WAITED.format(where=_BY_ID), [after_id, after_id + _RECORDS_AT_A_TIME, to_at, from_at])
        if found:
            yield found
