"""What counts at the end of a day, by account: past usage within the window, and demand of jobs that waited.

Past usage that counts at the end of a day, by account, for as long as the window reaches.
Sums are recomputed for every day from its window, so that zero stays exactly zero. Most decay functions multiply all
earlier usage by one factor a day: then the past is kept as one sum for each day, aged to its end, and where the window
has no end, as a single one. For other decay functions every hour is kept.
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

from apps.analytics.series.daily_series import HOUR_S, Day
from apps.engine import decay
from apps.priorities.metering import SourceRow
from apps.usage.held_hours import OF_CURRENT
from apps.usage.parsers.base import NO_TIME
from apps.usage.pgbinary import fetch_columns

# --- Past usage -------------------------------------------------------------------------------------------------------
F8 = npt.NDArray[np.float64]
I4 = npt.NDArray[np.int32]

_BY_FACTOR = frozenset({"none", "exponential", "slurm", "gridengine", "lsf"})  # weight(a + b) = weight(a) · weight(b)


@dataclass(frozen=True, eq=False, slots=True)
class DayRows:
    """Usage of one day in the metric. cell: account × sources + source, by their places. hour: since 1970."""

    day: Day
    cell: I4
    hour: I4
    amount: F8

    def summed(self, n_cells: int) -> F8:
        """Unaged, (n_cells,)."""
        return np.bincount(self.cell, weights=self.amount, minlength=n_cells).astype(np.float64)

    def counted_at(self, end_s: int, window: decay.Window, n_cells: int) -> F8:
        """What it comes to at an instant, (n_cells,)."""
        if not len(self.cell):
            return np.zeros(n_cells)
        first = int(self.hour.min())
        hours = np.arange(first, int(self.hour.max()) + 1) * float(HOUR_S)
        weight = decay.bucket_weights(hours, float(end_s), window)
        weighted = self.amount * weight[self.hour - first]
        return np.bincount(self.cell, weights=weighted, minlength=n_cells).astype(np.float64)


@dataclass(frozen=True, eq=False, slots=True)
class DaySums:
    """What all up to the end of a day, or that day alone, came to at its end: `cell` only where that is something."""

    day: Day
    cell: I4
    amount: F8

    @classmethod
    def of(cls, day: Day, sums: F8) -> DaySums:
        cell = np.flatnonzero(sums)
        return cls(day, cell.astype(np.int32), sums[cell])


def goes_by_factor(window: decay.Window) -> bool:
    """Whether an earlier day's sum differs at a later day by one factor alone."""
    return window.aging in _BY_FACTOR


def begins_s(window: decay.Window, end_s: int) -> int | None:
    """The first hour that may count at `end_s`; None for the beginning of time."""
    reach_s = window.reach_s
    if reach_s is None or reach_s > end_s:
        return None
    return int((end_s - reach_s) // HOUR_S) * HOUR_S - HOUR_S


Load = Callable[[Sequence[Day]], Iterable[DayRows]]


def reach_of(window: decay.Window, n_cells: int, load: Load) -> Reach:
    """Nothing yet. load: the hours of some days."""
    if not goes_by_factor(window):
        return _HourByHour(window, n_cells, load)
    return _Endless(window, n_cells, load) if window.length_s is None else _DayByDay(window, n_cells, load)


class Reach(ABC):
    """Days are added one after the other, each just before it is asked for the sum at its end."""

    def __init__(self, window: decay.Window, n_cells: int, load: Load) -> None:
        self.window = window
        self.n_cells = n_cells
        self._load = load

    def begin(self, earlier: Sequence[Day], kept: Sequence[DaySums]) -> None:
        """All that lies before the first day that is asked for; as far as possible from what an earlier build kept of
        days before it.
        """
        for rows in self._load(earlier):
            self.add(rows)

    @abstractmethod
    def add(self, rows: DayRows) -> None:
        """The day after those that were added before."""

    @abstractmethod
    def at_end_of(self, day: Day) -> F8:
        """What has been used so far comes to at the end of the day, (n_cells,)."""

    def kept(self) -> Iterator[DaySums]:
        """What the next build can go on from."""
        yield from ()


class _HourByHour(Reach):
    """Any decay function."""

    def __init__(self, window: decay.Window, n_cells: int, load: Load) -> None:
        super().__init__(window, n_cells, load)
        self._days: deque[DayRows] = deque()

    def add(self, rows: DayRows) -> None:
        if len(rows.cell):
            self._days.append(rows)

    def at_end_of(self, day: Day) -> F8:
        first_s = begins_s(self.window, day.to_s)
        while self._days and first_s is not None and self._days[0].day.to_s <= first_s:
            self._days.popleft()
        total = np.zeros(self.n_cells)
        for rows in self._days:
            total += rows.counted_at(day.to_s, self.window, self.n_cells)
        return total


class _Endless(Reach):
    """Aging by one factor, and nothing is ever too old."""

    def __init__(self, window: decay.Window, n_cells: int, load: Load) -> None:
        super().__init__(window, n_cells, load)
        self._sums = np.zeros(n_cells)
        self._day: Day | None = None

    def add(self, rows: DayRows) -> None:
        if self._day is not None:
            self._sums = self._sums * _factor(self.window, rows.day.to_s - self._day.to_s)
        self._sums = self._sums + rows.counted_at(rows.day.to_s, self.window, self.n_cells)
        self._day = rows.day

    def at_end_of(self, day: Day) -> F8:
        since_s = 0 if self._day is None else day.to_s - self._day.to_s
        return self._sums * _factor(self.window, since_s)

    def begin(self, earlier: Sequence[Day], kept: Sequence[DaySums]) -> None:
        if not kept or kept[-1].day not in earlier:
            super().begin(earlier, kept)
            return
        last = kept[-1]
        self._day = last.day
        self._sums = np.bincount(last.cell, weights=last.amount, minlength=self.n_cells).astype(np.float64)
        super().begin(earlier[earlier.index(last.day) + 1 :], ())

    def kept(self) -> Iterator[DaySums]:
        if self._day is not None:
            yield DaySums.of(self._day, self._sums)


class _DayByDay(Reach):
    """Aging by one factor, up to an age: a day counts whole, or in part on the one day on which it grows too old."""

    def __init__(self, window: decay.Window, n_cells: int, load: Load) -> None:
        super().__init__(window, n_cells, load)
        self._law = replace(window, length_s=None)
        self._length_s = float(window.length_s or 0.0)
        self._days: deque[DaySums] = deque()
        self._oldest: tuple[Day, list[DayRows]] | None = None

    def add(self, rows: DayRows) -> None:
        self._days.append(DaySums.of(rows.day, rows.counted_at(rows.day.to_s, self._law, self.n_cells)))

    def at_end_of(self, day: Day) -> F8:
        oldest_s = day.to_s - self._length_s  # an hour that ended then or before is too old
        while self._days and self._days[0].day.to_s <= oldest_s:
            self._days.popleft()
        factors = _factors(self._law, [day.to_s - each.day.to_s for each in self._days])
        counted = [self._counted(each, factor, oldest_s, day) for each, factor in zip(self._days, factors, strict=True)]
        cell = np.concatenate([each.cell for each in counted] or [np.zeros(0, np.int32)])
        amount = np.concatenate([each.amount for each in counted] or [np.zeros(0)])
        return np.bincount(cell, weights=amount, minlength=self.n_cells).astype(np.float64)

    def _counted(self, each: DaySums, factor: float, oldest_s: float, day: Day) -> DaySums:
        """The usage of an earlier day, decayed to the end of this one."""
        if each.day.from_s + HOUR_S > oldest_s or not len(each.cell):
            return DaySums(each.day, each.cell, each.amount * factor)
        return DaySums.of(each.day, self._in_part(each.day, day.to_s))

    def begin(self, earlier: Sequence[Day], kept: Sequence[DaySums]) -> None:
        known = {each.day: each for each in kept}
        there = [at for at, day in enumerate(earlier) if day in known]
        if not there or there[-1] - there[0] >= len(there):
            super().begin(earlier, kept)
            return
        super().begin(earlier[: there[0]], ())
        self._days.extend(known[earlier[at]] for at in there)
        super().begin(earlier[there[-1] + 1 :], ())

    def _in_part(self, day: Day, end_s: int) -> F8:
        if self._oldest is None or self._oldest[0] != day:  # of each hour of a day the oldest day is the same one
            self._oldest = (day, list(self._load([day])))
        counted = [rows.counted_at(end_s, self.window, self.n_cells) for rows in self._oldest[1]]
        total: F8 = np.sum(counted, axis=0)
        return total

    def kept(self) -> Iterator[DaySums]:
        yield from self._days


def _factors(window: decay.Window, since_s: Sequence[int]) -> list[float]:
    factors: list[float] = decay.weights(np.array(since_s, np.float64), window).tolist()
    return factors


def _factor(window: decay.Window, since_s: int) -> float:
    return _factors(window, [since_s])[0]


# --- Demand -----------------------------------------------------------------------------------------------------------
I1 = npt.NDArray[np.int8]
I8 = npt.NDArray[np.int64]

_RECORDS_AT_A_TIME = 200_000
_FEW_DAYS_S = 46 * 86_400  # found by time; more of them are read once, in the order of their rows
_MOST_PIECES = 2_000_000  # days of jobs spread at a time

# A job without a requested time requested its run time; a second of a core is the least that shows.
_WAITED = f"""
SELECT array_agg(account_id), array_agg(submit_at), array_agg(COALESCE(start_at, '-infinity')),
    array_agg(GREATEST(cpus, 1) * GREATEST(COALESCE(requested_s, EXTRACT(epoch FROM end_at - start_at)::float8, 1), 1))
FROM usage_record WHERE {{where}} AND state <> 'withdrawn' AND NOT is_charge{OF_CURRENT}
"""  # noqa: S608 - constants only
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
FROM usage_source AS source WHERE archived_at IS NULL
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
