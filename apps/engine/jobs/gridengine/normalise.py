"""Urgency, tickets and POSIX priority brought to one scale, in the scheduler's way and in the amended ones."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from apps.engine.jobs.fields import plain
from apps.engine.jobs.gridengine.amounts import Amount
from apps.engine.jobs.gridengine.inputs.case import HIGHEST_POSIX

TOO_NARROW = 0.00001  # a range below this distinguishes no jobs


@dataclass(frozen=True)
class Scale:
    """From `low` to `high` onto 0..1; `undecided`, and why, where the range is narrower than `narrow`.

    Running jobs may be kept within 0..1.
    """

    low: float
    high: float
    undecided: float
    clamps_running: bool
    narrow: float = TOO_NARROW
    why_undecided: str = "all the same, nobody is told apart"

    def normalise(self, value: float, *, is_running: bool = False) -> Amount:
        """(v − low)/(high − low)."""
        if self.high - self.low < self.narrow:
            return Amount(self.undecided, f"{plain(self.undecided)} ({self.why_undecided})")
        exact = (value - self.low) / (self.high - self.low)
        if is_running and self.clamps_running and not 0 <= exact <= 1:
            kept = min(max(exact, 0.0), 1.0)
            return Amount(kept, f"{plain(kept)} (beyond the range of pending jobs, so kept within it)")
        if self.low == 0:
            return Amount(exact, f"{plain(value)} / {plain(self.high)} (the largest)")
        low = plain(self.low)
        span = f"({plain(value)} − {low}) / ({plain(self.high)} − {low})"
        return Amount(exact, f"{span.replace('− -', '+ ')} (from the smallest to the largest)")


@dataclass(frozen=True)
class Rules:
    """What the amendments of a case change about scales."""

    amendments: frozenset[str]

    @property
    def excludes_running(self) -> bool:
        return "exclude_running" in self.amendments

    @property
    def undecided(self) -> float:
        return 0.0 if "default_zero" in self.amendments else 0.5

    def urgency_scale(self, pending: Iterable[float], running: Iterable[float]) -> Scale:
        """From the smallest to the largest urgency; the linear one from 0, and nothing where none is positive."""
        seen = [*pending, *(() if self.excludes_running else running)]
        low, high = min(seen, default=0.0), max(seen, default=0.0)
        if "linear_urgency" in self.amendments:
            why = "no job has a positive urgency"
            return Scale(0.0, max(high, 0.0), 0.0, self.excludes_running, narrow=math.ulp(0.0), why_undecided=why)
        return Scale(low, high, self.undecided, self.excludes_running)

    def ticket_scale(self, pending: Iterable[float], running: Iterable[float]) -> Scale:
        """Always from 0, to the most tickets any job has in either pass."""
        high = max([*pending, *(() if self.excludes_running else running)], default=0.0)
        return Scale(0.0, high, self.undecided, self.excludes_running)

    def posix(self, priority: int) -> Amount:
        """(p + 1024)/2048; with `default_zero` p/1024."""
        if "default_zero" in self.amendments:
            return Amount(priority / HIGHEST_POSIX, f"{priority} / {HIGHEST_POSIX}")
        both = 2 * HIGHEST_POSIX
        return Amount((priority + HIGHEST_POSIX) / both, f"({priority} + {HIGHEST_POSIX}) / {both}")
