"""Sites whose best setting follows by hand: their jobs, as a first-come-first-served machine really ran them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import numpy as np

from apps.contrib.lab.comparison.replay import DAY_S, Jobs
from apps.engine.arrays import FloatArray, IntArray
from apps.engine.tree import FairshareTree
from apps.policies.settings import PolicySettings

N_DAYS = 42
CPUS = 10


@dataclass(frozen=True)
class Stream:
    """Jobs of one group at a random rate: load of the whole machine, hours of a job, from one day to another.

    asks: requested times as often as its jobs run.
    """

    entry: int
    load: float
    hours: tuple[float, float] = (2.0, 6.0)
    cpus: int = 1
    days: Sequence[tuple[float, float]] = ((0.0, N_DAYS),)
    asks: float = 1.5


@dataclass(frozen=True)
class KnownSite:
    """shares: of the groups below the root, entries 1, 2, … held_s: how long each job waited for something else than
    processors, before it took any. more_cpus: additional ones in the second half of the days.
    """

    shares: Sequence[float]
    streams: Sequence[Stream]
    operator: str = "relative"
    half_life_days: float = 7.0
    cpus: int = CPUS
    seed: int = 1
    held_s: float = 0.0
    more_cpus: int = 0

    @property
    def tree(self) -> FairshareTree:
        n = len(self.shares)
        return FairshareTree.from_columns(np.array([-1] + [0] * n), np.array([1.0, *self.shares]))[0]

    @property
    def settings(self) -> dict[str, Any]:
        document = {
            "algorithm": {"name": "aequus", "operator": self.operator, "resolution": 10_000},
            "window": {"aging": "exponential", "half_life_s": int(self.half_life_days * 86_400), "length_s": None},
        }
        return PolicySettings.from_json(document).to_json()

    def jobs(self) -> Jobs:
        random = np.random.default_rng(self.seed)
        parts = [_drawn(stream, days, self.cpus, random) for stream in self.streams for days in stream.days]
        at_s, run_s, requested_s, cpus, entry = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(at_s, kind="stable")
        at_s, run_s, requested_s, cpus, entry = (each[order] for each in (at_s, run_s, requested_s, cpus, entry))
        started_s = first_come_first_served(at_s + self.held_s, run_s, cpus, self.cpus, self.more_cpus)
        return Jobs(
            submit_s=at_s,
            run_s=run_s,
            requested_s=requested_s,
            cpus=cpus,
            entry=entry,
            started_s=started_s,
            rate=cpus.astype(np.float64),
            site=np.zeros(len(at_s), dtype=np.int64),
            n_days=N_DAYS,
        )


def _drawn(
    stream: Stream, days: tuple[float, float], cpus: int, random: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray, IntArray, IntArray]:
    low, high = stream.hours
    length_s = (days[1] - days[0]) * DAY_S
    n = round(stream.load * cpus * length_s / (1_800.0 * (low + high) * stream.cpus))
    at_s = days[0] * DAY_S + np.sort(random.random(n)) * length_s
    run_s = 3_600.0 * (low + (high - low) * random.random(n))
    requested_s = stream.asks * run_s
    return at_s, run_s, requested_s, np.full(n, stream.cpus, dtype=np.int64), np.full(n, stream.entry, dtype=np.int64)


def first_come_first_served(
    at_s: FloatArray, run_s: FloatArray, cpus: IntArray, n_cpus: int, more_cpus: int = 0
) -> FloatArray:
    """When each job starts, NaN for those that wait at the end; at_s ascending. more_cpus: from the middle on."""
    started_s = np.full(len(at_s), np.nan)
    running: list[tuple[float, int]] = [(N_DAYS * DAY_S / 2, more_cpus)] if more_cpus else []
    now_s, free = 0.0, n_cpus
    for job in range(len(at_s)):
        now_s = max(now_s, float(at_s[job]))
        while running and (running[0][0] <= now_s or free < cpus[job]):
            end_s, width = heappop(running)
            now_s, free = max(now_s, end_s), free + width
        if now_s >= N_DAYS * DAY_S:
            break
        started_s[job] = now_s
        free -= int(cpus[job])
        heappush(running, (now_s + float(run_s[job]), int(cpus[job])))
    return started_s
