"""How likely a job starts within 5 minutes: eight counters, of small to large jobs, beside a queue or an empty one.

A counter has starts s and jobs n, and so has one of all jobs, S and N:

    rate = (S + ½ · ALL) / (N + ALL)
    said = (s + OWN · rate) / (n + OWN)

A counter with few jobs so says what held for all, and before any settled job says ½. A settled job of a burst of b
counts with weight 1/√b in both, and what came before it fades:

    s ← s · R^(1/√b) + (1 if it started in time) / √b
    n ← n · R^(1/√b) + 1 / √b

OWN and ALL were chosen on the first two thirds of three logs and on simulated hours of a small busy cluster: nothing
got worse by them. Where the load swings within the half hour that is remembered, all counters trail it: there the best
constant, which nobody knows before, is still better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from apps.contrib.starts.prediction.promises import WaitingJob

_N_SIZES = 4
_REMEMBERED = 0.97  # R: the last thirty jobs or so decide
_OWN, _ALL = 3.0, 20.0  # jobs that a counter, and that of all, begins with
Counter = tuple[int, bool]
Counts = tuple[float, float]  # starts and jobs
_NOTHING: Counts = (0.0, 0.0)


def counter_of(job: WaitingJob, *, others_wait: bool) -> Counter:
    """others_wait: whether jobs of its queue wait already."""
    return min(job.size, _N_SIZES - 1), others_wait


@dataclass(slots=True)
class SoonCounters:
    """(s, n) by counter, and of all jobs."""

    counts: dict[Counter, Counts] = field(default_factory=dict)
    of_all: Counts = _NOTHING

    def probability(self, counter: Counter) -> float:
        """Between 0 and 1, never either: nothing is certain."""
        starts, jobs = self.of_all
        rate = (starts + _ALL / 2) / (jobs + _ALL)
        starts, jobs = self.counts.get(counter, _NOTHING)
        return (starts + _OWN * rate) / (jobs + _OWN)

    def count(self, counter: Counter, n_of_burst: int, *, started: bool) -> None:
        """Count a job whose first 5 minutes are over, or that started within them. n_of_burst: at least 1."""
        weight = 1 / math.sqrt(n_of_burst)
        self.counts[counter] = _counted(self.counts.get(counter, _NOTHING), weight, started=started)
        self.of_all = _counted(self.of_all, weight, started=started)


def _counted(counts: Counts, weight: float, *, started: bool) -> Counts:
    starts, jobs = counts
    decay = _REMEMBERED**weight
    return starts * decay + started * weight, jobs * decay + weight
