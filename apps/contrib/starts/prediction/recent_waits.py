"""Base of a promise: quantiles of how long jobs of the same class waited lately, of the smallest class with enough."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from apps.contrib.starts.prediction.promises import FIRST_AGE_S, LEVELS, Kind, WaitingJob, next_age_s

MOST_WAITS_OF_CLASS = 200  # waits of a class
LEAST_FOR_QUANTILES = 30
UNKNOWN_WAIT_S = 3_600.0  # until enough jobs have started
CONSTANT, RECENT = "constant", "recent"


class RecentWaits:
    """Waits of started jobs, by class. Of a job that waited for hours also what was left after 1, 2, 4 … of them."""

    def __init__(self, waits: Mapping[tuple[int, ...], Iterable[float]] | None = None) -> None:
        """waits: what an earlier one knew, as `known` gives it."""
        self._waits: defaultdict[tuple[int, ...], deque[float]] = defaultdict(lambda: deque(maxlen=MOST_WAITS_OF_CLASS))
        for key, each in (waits or {}).items():
            self._waits[key].extend(each)
        self._quantiles: dict[tuple[int, ...], tuple[float, ...]] = {}  # of classes as they are

    def known(self) -> dict[tuple[int, ...], list[float]]:
        """Waits in seconds by class, in a fixed order of classes; the oldest first."""
        return {key: list(waits) for key, waits in sorted(self._waits.items())}

    def add(self, job: WaitingJob, wait_s: float) -> None:
        """Remember a wait, from submission to start."""
        age_s = 0.0
        while age_s < wait_s or age_s == 0:
            for key in _classes(job, age_s):
                self._waits[key].append(wait_s - age_s)
                self._quantiles.pop(key, None)
            age_s = next_age_s(age_s)

    def n_known(self, age_s: float) -> int:
        """Waits of jobs that had waited as long: of all sizes and limits together."""
        return len(self._waits.get((age_class(age_s),), ()))

    def bases(self, job: WaitingJob, age_s: float) -> dict[str, tuple[float, ...]]:
        """By name of the base, seconds at LEVELS that a job like this one waits further."""
        offered = {CONSTANT: (UNKNOWN_WAIT_S,) * len(LEVELS)}
        if (recent_s := self.quantiles(job, age_s)) is not None:
            offered[RECENT] = recent_s
        return offered

    def quantiles(self, job: WaitingJob, age_s: float) -> tuple[float, ...] | None:
        """Of the smallest class with enough waits, at LEVELS; None if no class has enough."""
        for key in _classes(job, age_s):
            waits = self._waits.get(key, ())
            if len(waits) >= LEAST_FOR_QUANTILES:
                if key not in self._quantiles:
                    self._quantiles[key] = tuple(np.quantile(np.fromiter(waits, np.float64), LEVELS).tolist())
                return self._quantiles[key]
        return None


def _classes(job: WaitingJob, age_s: float) -> Iterator[tuple[int, ...]]:
    """The smallest class first; the age is always part of it."""
    age = age_class(age_s)
    yield (age, job.size, job.length)
    yield (age, job.size)
    yield (age,)


def age_class(age_s: float) -> int:
    """0 at submission, 1 after an hour, 2 after two, 3 after four …"""
    return 0 if age_s < FIRST_AGE_S else 1 + int(math.log2(age_s / FIRST_AGE_S) + 1e-9)


def kind_at(age_s: float) -> Kind:
    return Kind.WAITING if age_s > 0 else Kind.SUBMIT
