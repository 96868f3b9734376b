"""Sums per account at the end of a day: decayed usage within the window, and demand by jobs that waited.

Sums are recomputed for every day from its window, so that zero stays exactly zero. Most decay functions multiply all
earlier usage by one factor a day. For these, past usage is stored as one sum a day, or as a single sum if the window
has no length. Other decay functions need every hour.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from apps.engine import decay
from apps.series.daily_series import HOUR_S
from apps.series.days import Day

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


Load = Callable[[Sequence[Day]], Iterable[DayRows]]


def window_start_s(window: decay.Window, end_s: int) -> int | None:
    """Start of the first hour that may have weight at `end_s`; None if the window has no start."""
    reach_s = window.reach_s
    if reach_s is None or reach_s > end_s:
        return None
    return int((end_s - reach_s) // HOUR_S) * HOUR_S - HOUR_S


def window_sums_of(window: decay.Window, n_cells: int, load: Load) -> WindowSums:
    """Return empty sums for the kind of window. load: reads the usage rows of some days."""
    if window.function.is_multiplicative and window.reset and window.length_s is None:
        return _UnboundedSums(window, n_cells, load)  # a day's factor is 0 where usage was reset
    if not window.is_multiplicative:
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
            self._sums = self._sums * self._factor(rows.day.to_s)
        self._sums = self._sums + rows.decayed_at(rows.day.to_s, self.window, self.n_cells)
        self._day = rows.day

    def total_at_end(self, day: Day) -> F8:
        return self._sums if self._day is None else self._sums * self._factor(day.to_s)

    def _factor(self, end_s: int) -> float:
        """What is left at an instant of usage as it counted at the end of the last added day.

        Usage that ended at a reset is gone, so the sum of a day that ends at one is 0 from then on.
        """
        day = self._day
        if day is None:
            return 1.0
        return float(decay.weights(np.array([end_s - day.to_s], np.float64), self.window, float(end_s))[0])

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
