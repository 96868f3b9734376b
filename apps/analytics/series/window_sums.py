"""Past usage that counts at the end of a day, by account, for as long as the window reaches.

Sums are recomputed for every day from its window, so that zero stays exactly zero. Most decay functions multiply all
earlier usage by one factor a day: then the past is kept as one sum for each day, aged to its end, and where the window
has no end, as a single one. For other decay functions every hour is kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from apps.analytics.series.calendar import HOUR_S, Day
from apps.engine import decay

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

    def add(self, rows: DayRows) -> None:
        self._days.append(DaySums.of(rows.day, rows.counted_at(rows.day.to_s, self._law, self.n_cells)))

    def at_end_of(self, day: Day) -> F8:
        oldest_s = day.to_s - self._length_s  # an hour that ended then or before is too old
        while self._days and self._days[0].day.to_s <= oldest_s:
            self._days.popleft()
        total = np.zeros(self.n_cells)
        for each in self._days:
            if each.day.from_s + HOUR_S > oldest_s:
                aged = each.amount * _factor(self._law, day.to_s - each.day.to_s)
                total += np.bincount(each.cell, weights=aged, minlength=self.n_cells)
            elif len(each.cell):
                total += self._in_part(each.day, day.to_s)
        return total

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
        counted = [rows.counted_at(end_s, self.window, self.n_cells) for rows in self._load([day])]
        total: F8 = np.sum(counted, axis=0)
        return total

    def kept(self) -> Iterator[DaySums]:
        yield from self._days


def _factor(window: decay.Window, since_s: int) -> float:
    return float(decay.weights(np.array([float(since_s)]), window)[0])
