"""Sums per account at the end of a day: decayed usage within the window, and demand by jobs that waited.

Sums are recomputed for every day from its window, so that zero stays exactly zero. Most decay functions multiply all
earlier usage by one factor a day. For these, past usage is stored as one sum a day, or as a single sum if the window
has no length. Other decay functions need every hour.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from django.db import connection

from apps.engine import decay
from apps.priorities.metering import SourceRow
from apps.series.daily_series import HOUR_S, Day
from apps.usage.held_hours import OF_CURRENT
from apps.usage.models import Source
from apps.usage.parsers.base import FINISHED, NO_TIME, PENDING, WITHDRAWN
from apps.usage.pgbinary import fetch_columns

F8 = npt.NDArray[np.float64]
I4 = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False, slots=True)
class DayRows:
    """Usage of one day in the metric. cell: account index × number of sources + source index. hour: since 1970."""

    day: Day
    cell: I4
    hour: I4
    amount: F8

    def totals(self, n_cells: int) -> F8:
        """Sum by cell without decay, (n_cells,)."""
        return np.bincount(self.cell, weights=self.amount, minlength=n_cells).astype(np.float64)

    def decayed_at(self, end_s: int, window: decay.Window, n_cells: int) -> F8:
        """Sum by cell, decayed to an instant, (n_cells,)."""
        if not len(self.cell):
            return np.zeros(n_cells)
        first = int(self.hour.min())
        hours = np.arange(first, int(self.hour.max()) + 1) * float(HOUR_S)
        weight = decay.bucket_weights(hours, float(end_s), window)
        weighted = self.amount * weight[self.hour - first]
        return np.bincount(self.cell, weights=weighted, minlength=n_cells).astype(np.float64)


@dataclass(frozen=True, eq=False, slots=True)
class DaySums:
    """Sums at the end of a day, of that day alone or of all days up to it. `cell` lists only the nonzero ones."""

    day: Day
    cell: I4
    amount: F8

    @classmethod
    def of(cls, day: Day, sums: F8) -> DaySums:
        cell = np.flatnonzero(sums)
        return cls(day, cell.astype(np.int32), sums[cell])


def window_start_s(window: decay.Window, end_s: int) -> int | None:
    """Start of the first hour that may have weight at `end_s`; None if the window has no start."""
    reach_s = window.reach_s
    if reach_s is None or reach_s > end_s:
        return None
    return int((end_s - reach_s) // HOUR_S) * HOUR_S - HOUR_S


Load = Callable[[Sequence[Day]], Iterable[DayRows]]


def window_sums_of(window: decay.Window, n_cells: int, load: Load) -> WindowSums:
    """Return empty sums for the kind of window. load: reads the usage rows of some days."""
    if not window.function.is_multiplicative:
        return _HourlySums(window, n_cells, load)
    return _UnboundedSums(window, n_cells, load) if window.length_s is None else _DailySums(window, n_cells, load)


class WindowSums(ABC):
    """Decayed usage of all days added so far. Add a day before requesting the sum at its end."""

    def __init__(self, window: decay.Window, n_cells: int, load: Load) -> None:
        self.window = window
        self.n_cells = n_cells
        self._load = load

    def load_past(self, earlier: Sequence[Day], stored: Sequence[DaySums]) -> None:
        """Add all days before the first requested one, from stored sums where possible, else from usage rows."""
        for rows in self._load(earlier):
            self.add(rows)

    @abstractmethod
    def add(self, rows: DayRows) -> None:
        """Add the day after the last added one."""

    @abstractmethod
    def total_at_end(self, day: Day) -> F8:
        """Return the decayed usage at the end of the day, (n_cells,)."""

    def carried(self) -> Iterator[DaySums]:
        """Yield the sums from which the next build can continue."""
        yield from ()


class _HourlySums(WindowSums):
    """For any decay function: keeps every hour."""

    def __init__(self, window: decay.Window, n_cells: int, load: Load) -> None:
        super().__init__(window, n_cells, load)
        self._days: deque[DayRows] = deque()

    def add(self, rows: DayRows) -> None:
        if len(rows.cell):
            self._days.append(rows)

    def total_at_end(self, day: Day) -> F8:
        first_s = window_start_s(self.window, day.to_s)
        while self._days and first_s is not None and self._days[0].day.to_s <= first_s:
            self._days.popleft()
        total = np.zeros(self.n_cells)
        for rows in self._days:
            total += rows.decayed_at(day.to_s, self.window, self.n_cells)
        return total


class _UnboundedSums(WindowSums):
    """For multiplicative decay without a maximum age: keeps one sum."""

    def __init__(self, window: decay.Window, n_cells: int, load: Load) -> None:
        super().__init__(window, n_cells, load)
        self._sums = np.zeros(n_cells)
        self._day: Day | None = None

    def add(self, rows: DayRows) -> None:
        if self._day is not None:
            self._sums = self._sums * _factor(self.window, rows.day.to_s - self._day.to_s)
        self._sums = self._sums + rows.decayed_at(rows.day.to_s, self.window, self.n_cells)
        self._day = rows.day

    def total_at_end(self, day: Day) -> F8:
        since_s = 0 if self._day is None else day.to_s - self._day.to_s
        return self._sums * _factor(self.window, since_s)

    def load_past(self, earlier: Sequence[Day], stored: Sequence[DaySums]) -> None:
        if not stored or stored[-1].day not in earlier:
            super().load_past(earlier, stored)
            return
        last = stored[-1]
        self._day = last.day
        self._sums = np.bincount(last.cell, weights=last.amount, minlength=self.n_cells).astype(np.float64)
        super().load_past(earlier[earlier.index(last.day) + 1 :], ())

    def carried(self) -> Iterator[DaySums]:
        if self._day is not None:
            yield DaySums.of(self._day, self._sums)


class _DailySums(WindowSums):
    """For multiplicative decay with a maximum age: keeps one sum a day, and hours only for the day that is partly too
    old.
    """

    def __init__(self, window: decay.Window, n_cells: int, load: Load) -> None:
        super().__init__(window, n_cells, load)
        self._decay = replace(window, length_s=None)
        self._length_s = float(window.length_s or 0.0)
        self._days: deque[DaySums] = deque()
        self._oldest: tuple[Day, list[DayRows]] | None = None

    def add(self, rows: DayRows) -> None:
        self._days.append(DaySums.of(rows.day, rows.decayed_at(rows.day.to_s, self._decay, self.n_cells)))

    def total_at_end(self, day: Day) -> F8:
        oldest_s = day.to_s - self._length_s  # an hour that ended at or before this is too old
        while self._days and self._days[0].day.to_s <= oldest_s:
            self._days.popleft()
        factors = _factors(self._decay, [day.to_s - each.day.to_s for each in self._days])
        sums = [self._decayed(each, factor, oldest_s, day) for each, factor in zip(self._days, factors, strict=True)]
        cell = np.concatenate([each.cell for each in sums] or [np.zeros(0, np.int32)])
        amount = np.concatenate([each.amount for each in sums] or [np.zeros(0)])
        return np.bincount(cell, weights=amount, minlength=self.n_cells).astype(np.float64)

    def _decayed(self, each: DaySums, factor: float, oldest_s: float, day: Day) -> DaySums:
        """Decay the usage of an earlier day to the end of this one."""
        if each.day.from_s + HOUR_S > oldest_s or not len(each.cell):
            return DaySums(each.day, each.cell, each.amount * factor)
        return DaySums.of(each.day, self._partial_sum(each.day, day.to_s))

    def load_past(self, earlier: Sequence[Day], stored: Sequence[DaySums]) -> None:
        known = {each.day: each for each in stored}
        known_at = [at for at, day in enumerate(earlier) if day in known]
        if not known_at or known_at[-1] - known_at[0] >= len(known_at):
            super().load_past(earlier, stored)
            return
        super().load_past(earlier[: known_at[0]], ())
        self._days.extend(known[earlier[at]] for at in known_at)
        super().load_past(earlier[known_at[-1] + 1 :], ())

    def _partial_sum(self, day: Day, end_s: int) -> F8:
        if self._oldest is None or self._oldest[0] != day:  # all hours of a day share their oldest day
            self._oldest = (day, list(self._load([day])))
        counted = [rows.decayed_at(end_s, self.window, self.n_cells) for rows in self._oldest[1]]
        total: F8 = np.sum(counted, axis=0)
        return total

    def carried(self) -> Iterator[DaySums]:
        yield from self._days


def _factors(window: decay.Window, since_s: Sequence[int]) -> list[float]:
    factors: list[float] = decay.weights(np.array(since_s, np.float64), window).tolist()
    return factors


def _factor(window: decay.Window, since_s: int) -> float:
    return _factors(window, [since_s])[0]


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
