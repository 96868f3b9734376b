"""What of the past counts at the end of a day: usage of accounts hour by hour, for as long as the window reaches.

Sums are made anew for every day from what counts on it, so that nothing stays exactly nothing. Only where the window
has no end and aging is the same factor for everything, whatever its age, yesterday's sum is aged by a day.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apps.engine import decay
from apps.priorities.series.calendar import HOUR_S, Day

F8 = npt.NDArray[np.float64]
I4 = npt.NDArray[np.int32]

# Aging by a day multiplies all that came before it by one factor: weight(a + b) = weight(a) · weight(b).
_BY_FACTOR = frozenset({"none", "exponential", "slurm", "gridengine", "lsf"})


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


def goes_by_factor(window: decay.Window) -> bool:
    """Whether the sum of a day follows from that of the day before."""
    return window.length_s is None and window.aging in _BY_FACTOR


def begins_s(window: decay.Window, end_s: int) -> int | None:
    """The first hour that may count at `end_s`; None for the beginning of time."""
    reach_s = window.reach_s
    if reach_s is None or reach_s > end_s:
        return None
    return int((end_s - reach_s) // HOUR_S) * HOUR_S - HOUR_S


class Reach:
    """Days are added one after the other, each just before it is asked for the sum at its end."""

    def __init__(self, window: decay.Window, n_cells: int) -> None:
        self.window = window
        self.n_cells = n_cells
        self._days: deque[DayRows] = deque()
        self._by_factor = goes_by_factor(window)
        self._carried = np.zeros(n_cells)
        self._carried_at_s: int | None = None

    def carry(self, sums: F8, at_s: int) -> None:
        """Go on from the sums at the end of a day that another build came to."""
        self._carried, self._carried_at_s = sums, at_s

    def fill(self, earlier: Iterable[DayRows]) -> None:
        """What lies before the first day that is asked for."""
        for rows in earlier:
            self.add(rows)
            if self._by_factor:
                self.at_end_of(rows.day)

    def add(self, rows: DayRows) -> None:
        if len(rows.cell):
            self._days.append(rows)

    def at_end_of(self, day: Day) -> F8:
        """What has been used so far comes to at the end of the day, (n_cells,)."""
        if self._by_factor:
            return self._aged_by_factor(day)
        first_s = begins_s(self.window, day.to_s)
        while self._days and first_s is not None and self._days[0].day.to_s <= first_s:
            self._days.popleft()
        total = np.zeros(self.n_cells)
        if not self._days:
            return total
        first = self._days[0].day.from_s // HOUR_S
        hours = np.arange(first, day.to_s // HOUR_S)
        weight = decay.bucket_weights(hours * float(HOUR_S), float(day.to_s), self.window)
        for rows in self._days:
            total += np.bincount(rows.cell, weights=rows.amount * weight[rows.hour - first], minlength=self.n_cells)
        return total

    def _aged_by_factor(self, day: Day) -> F8:
        since_s = 0 if self._carried_at_s is None else day.to_s - self._carried_at_s
        self._carried = self._carried * float(decay.weights(np.array([float(since_s)]), self.window)[0])
        self._carried_at_s = day.to_s
        for rows in self._days:
            weight = decay.bucket_weights(rows.hour * float(HOUR_S), float(day.to_s), self.window)
            self._carried += np.bincount(rows.cell, weights=rows.amount * weight, minlength=self.n_cells)
        self._days.clear()
        return self._carried
