"""Whether the replay's machine could have done what happened: own jobs in the order in which they really started.

The order is given, so priorities and settings play no part: what differs is the model's. On a machine that is too large
jobs start earlier than they did, and where they waited for something else than processors (a partition, a licence, a
limit of a user) no number of processors explains it. Advice from a replay that can't meet history would be of another
machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from apps.contrib.lab.comparison.replay import DAY_S, Replay
from apps.engine.arrays import FloatArray, IntArray

LEAST_WAIT_PART = 0.5  # of the waiting in history that the replay must have
SHORT_WAIT_S = 600.0  # waits of this length on average decide nothing
MOST_DISTANCE_POINTS = 2.0  # by which the distance from fair use may differ, on average over the days


@dataclass(frozen=True)
class ModelError:
    """distance_points: mean difference of the distance from fair use, model and history, by day. wait_s,
    model_wait_s: mean wait of the jobs that started, weighted by their usage, in history and in the model.
    """

    distance_points: float
    wait_s: float
    model_wait_s: float

    @property
    def is_met(self) -> bool:
        """Whether the model meets history well enough to learn from it."""
        return self.distance_points <= MOST_DISTANCE_POINTS and explains_waits(self.wait_s, self.model_wait_s)


def explains_waits(wait_s: float | None, model_wait_s: float | None) -> bool:
    """From mean waits in history and in the replay; None: not known, which refutes nothing.

    Jobs that waited for something else than processors (a partition, a licence, a limit of a user) start at once in a
    replay that knows processors alone.
    """
    if wait_s is None or model_wait_s is None:
        return True
    return wait_s <= SHORT_WAIT_S or model_wait_s >= LEAST_WAIT_PART * wait_s


def model_error(replay: Replay, first_day: int) -> ModelError:
    """first_day: the first one that is compared; before, a few jobs decide."""
    jobs = replay.jobs
    model_s = starts_in_recorded_order(replay)
    happened = replay.distances(jobs.started_s)[first_day:]
    modelled = replay.distances(model_s)[first_day:]
    known = np.isfinite(happened) & np.isfinite(modelled)
    gap = np.abs(happened - modelled)[known]
    ran = np.isfinite(jobs.started_s)
    weight = (jobs.run_s * jobs.rate)[ran]
    wait_s = _weighted_mean(np.maximum(jobs.started_s - jobs.submit_s, 0.0)[ran], weight)
    model_wait_s = _weighted_mean(np.maximum(model_s - jobs.submit_s, 0.0)[ran], weight)
    return ModelError(float(gap.mean()) if len(gap) else 0.0, wait_s, model_wait_s)


def _weighted_mean(values: FloatArray, weight: FloatArray) -> float:
    total = float(weight.sum())
    return float((values * weight).sum()) / total if total > 0 else 0.0


def starts_in_recorded_order(replay: Replay) -> FloatArray:
    """When each job starts if at each site they start in the recorded order, each as soon as it fits; NaN for never."""
    jobs = replay.jobs
    starts_s = np.full(len(jobs), np.nan)
    for site in range(len(replay.cpus)):
        rows = np.flatnonzero((jobs.site == site) & np.isfinite(jobs.started_s))
        rows = rows[np.lexsort((jobs.submit_s[rows], jobs.started_s[rows]))]
        _start_in_order(rows, replay, replay.cpus[site], starts_s)
    return starts_s


def _start_in_order(rows: IntArray, replay: Replay, cpus_by_day: IntArray, starts_s: FloatArray) -> None:
    jobs = replay.jobs
    capacity = cpus_by_day.tolist()
    n_days = len(capacity)
    running: list[tuple[float, int]] = []
    busy, now_s, end_s = 0, 0.0, n_days * DAY_S
    columns = (jobs.submit_s[rows].tolist(), jobs.run_s[rows].tolist(), jobs.cpus[rows].tolist())
    for row, submit_s, run_s, cpus in zip(rows.tolist(), *columns, strict=True):
        now_s = max(now_s, submit_s)
        while now_s < end_s:
            while running and running[0][0] <= now_s:
                busy -= heappop(running)[1]
            day = int(now_s // DAY_S)
            if busy + cpus <= capacity[day]:
                break
            next_end_s = running[0][0] if running else end_s
            now_s = min(next_end_s, (day + 1) * DAY_S)
        if now_s >= end_s:
            return  # the others start later
        starts_s[row] = now_s
        busy += cpus
        heappush(running, (now_s + run_s, cpus))
