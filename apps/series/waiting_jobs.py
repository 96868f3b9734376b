"""Demand of a day: core-hours of jobs that waited, and which sources know when jobs were submitted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from django.db import connection

from apps.priorities.metering import SourceRow
from apps.series.days import Day
from apps.series.usage_and_demand import F8, I4
from apps.usage.held_hours import OF_CURRENT
from apps.usage.models import Source
from apps.usage.parsers.base import FINISHED, NO_TIME, PENDING, WITHDRAWN
from apps.usage.pgbinary import fetch_columns

I1 = npt.NDArray[np.int8]
I8 = npt.NDArray[np.int64]
_RECORDS_AT_A_TIME = 200_000
_FEW_DAYS_S = 46 * 86_400  # a shorter span is queried by time, a longer one by ranges of record ids
_MOST_JOB_DAYS = 2_000_000  # job-days expanded at a time
# Without a requested time the run time stands in for it; at least one core-second is counted.
_SELECT_WAITING = f"""
SELECT array_agg(account_id), array_agg(submit_at), array_agg(COALESCE(start_at, '-infinity')),
    array_agg(GREATEST(cpus, 1) * GREATEST(COALESCE(requested_s, EXTRACT(epoch FROM end_at - start_at)::float8, 1), 1))
FROM usage_record WHERE {{where}} AND state <> {WITHDRAWN} AND NOT is_charge{OF_CURRENT}
"""  # noqa: S608 - constants only
_BY_ID = f"""
id > %s AND id <= %s AND submit_at < %s AND (start_at > submit_at AND start_at > %s OR state = {PENDING})
"""
_BY_TIME = "submit_at < %s AND start_at > %s AND start_at > submit_at"
_OPEN = f"state <> {FINISHED} AND state = {PENDING} AND submit_at < %s"


class Waiting:
    """Demand by jobs that waited, on some days. `account_ids` must be ascending."""

    def __init__(self, days: Sequence[Day], account_ids: I8) -> None:
        self._n_accounts = len(account_ids)
        self._of_day: dict[int, list[tuple[I4, F8]]] = defaultdict(list)
        if days:
            for columns in _read(days):
                self._spread(days, account_ids, *columns)

    def on(self, day: Day) -> F8 | None:
        """Core-seconds of each account on the day; None if no job waited."""
        demands = self._of_day.get(day.from_s)
        if demands is None:
            return None
        total = np.zeros(self._n_accounts)
        for account_index, core_s in demands:
            total += np.bincount(account_index, weights=core_s, minlength=self._n_accounts)
        return total

    def _spread(
        self, days: Sequence[Day], account_ids: I8, account: I8, submit_us: I8, start_us: I8, core_s: F8
    ) -> None:
        from_us = np.array([day.from_s for day in days], np.int64) * 1_000_000
        to_us = np.array([day.to_s for day in days], np.int64) * 1_000_000
        first = np.searchsorted(to_us, submit_us, side="right")
        last = np.searchsorted(from_us, np.where(start_us == NO_TIME, to_us[-1], start_us), side="left") - 1
        account_index = np.searchsorted(account_ids, account)
        found_rows = np.flatnonzero((last >= first) & (account_index < len(account_ids)))
        # Accounts created since the ids were read are left to the next build.
        found_rows = found_rows[account_ids[account_index[found_rows]] == account[found_rows]]
        n_days = (last - first + 1)[found_rows]
        portion = (np.cumsum(n_days) - n_days) // _MOST_JOB_DAYS
        for number in range(int(portion[-1]) + 1 if len(portion) else 0):
            chosen = portion == number
            self._add(
                days,
                account_index[found_rows[chosen]],
                first[found_rows[chosen]],
                n_days[chosen],
                core_s[found_rows[chosen]],
            )

    def _add(self, days: Sequence[Day], account_index: I8, first: I8, n_days: I8, core_s: F8) -> None:
        ordinal = np.arange(int(n_days.sum())) - np.repeat(np.cumsum(n_days) - n_days, n_days)
        key = (np.repeat(first, n_days) + ordinal) * self._n_accounts + np.repeat(account_index, n_days)
        cells, at = np.unique(key, return_inverse=True)
        sums = np.bincount(at, weights=np.repeat(core_s, n_days), minlength=len(cells))
        day, where = np.divmod(cells, self._n_accounts)
        starts = np.flatnonzero(np.diff(day, prepend=-1))
        for first_row, end in zip(starts.tolist(), [*starts[1:].tolist(), len(day)], strict=True):
            self._of_day[days[int(day[first_row])].from_s].append(
                (where[first_row:end].astype(np.int32), sums[first_row:end].astype(np.float64))
            )


class SubmitTimeSources:
    """Since when sources have had jobs, since when they are known to report submit times, and until when their records
    have been deleted.

    A source without submit times reports each job as submitted when it started: the first job that waited shows that
    it has them. Of the days before, nothing is known, whenever they are built.
    """

    def __init__(self, sources: Sequence[SourceRow]) -> None:
        columns = ("first_submit_at", "first_wait_at", "sealed_before_at")
        known = {source_id: times for source_id, *times in Source.objects.values_list("id", *columns)}
        times = [known[each.id] for each in sources]
        self._first_s, self._first_wait_s, sealed_s = (
            np.array([np.inf if row[column] is None else row[column].timestamp() for row in times], np.float64)
            for column in range(len(columns))
        )
        self._sealed_s = np.where(np.isinf(sealed_s), -np.inf, sealed_s)

    def on(self, day: Day) -> I1:
        """Return (sources,) flags as RevisionContext.values expects them."""
        reports = (self._first_wait_s < day.to_s) & (self._sealed_s <= day.from_s)
        return np.where(self._first_s < day.to_s, reports, -1).astype(np.int8)

    def is_sealed(self, day: Day) -> bool:
        """Whether records of jobs that waited on the day may have been deleted."""
        return bool((self._sealed_s > day.from_s).any())


def _read(days: Sequence[Day]) -> Iterator[list[Any]]:
    from_at, to_at = days[0].from_at, days[-1].to_at
    if days[-1].to_s - days[0].from_s <= _FEW_DAYS_S:
        for where, parameters in ((_BY_TIME, [to_at, from_at]), (_OPEN, [to_at])):
            columns = fetch_columns(_SELECT_WAITING.format(where=where), parameters)
            if columns:
                yield columns
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT COALESCE(min(id), 1), COALESCE(max(id), 0) FROM usage_record")
        first_id, last_id = cursor.fetchone()
    for after_id in range(first_id - 1, last_id, _RECORDS_AT_A_TIME):
        columns = fetch_columns(
            _SELECT_WAITING.format(where=_BY_ID), [after_id, after_id + _RECORDS_AT_A_TIME, to_at, from_at]
        )
        if columns:
            yield columns
