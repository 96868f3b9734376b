"""When cores and GPUs come free by the time limits of the jobs that run on them: the latest instant, not a forecast.

A job ends by start + limit, and most end earlier. Its limit is its own, else the longest of its partitions. A job that
is beyond its limit ends at once. One without any limit is counted apart: nothing says when it ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from math import isfinite
from typing import Annotated, NamedTuple

from apps.contrib.schedulers.queue_state import QueueState
from apps.contrib.starts.now.level import I8
from apps.contrib.starts.planned_starts import time_limit_s

HORIZONS_S = (3_600.0, 4 * 3_600.0, 24 * 3_600.0)
MOST_PARTITIONS_COMING_FREE = 100  # of a level: those on which most cores run


class Amount(NamedTuple):
    cores: float
    gpus: Annotated[float, "Of all types"]


class ComesFree(NamedTuple):
    """What comes free by an instant, by limits."""

    by: datetime
    cores: float
    gpus: Annotated[float, "Of all types"]


class PartitionComingFree(NamedTuple):
    """Cores and GPUs on which jobs of the level run in one partition."""

    scheduler: str
    partition: str
    running: Amount
    comes_free: Annotated[list[ComesFree], "Within 1, 4 and 24 hours of `as_of`, each with what came before"]
    unlimited: Annotated[Amount, "Of jobs without a time limit: nothing says when they end"]


def coming_free(scheduler: str, state: QueueState, row: I8, at: datetime) -> list[PartitionComingFree]:
    """Of the running jobs of a listing that are in a row, by partition. row: of each job; −1 for jobs of none."""
    limits = {each.name: each.limit_s for each in state.partitions}
    sums: dict[str, list[Amount]] = {}
    for job, place in zip(state.jobs, row.tolist(), strict=True):
        if place < 0 or job.state != "running":
            continue
        limit_s = time_limit_s(job, limits)
        begun_at = state.taken_at if job.start_at is None else job.start_at
        left_s = None if limit_s is None else limit_s - (at - begun_at).total_seconds()
        cores = job.n_tasks * job.cpus if isfinite(job.cpus) else 0.0
        gpus = job.n_tasks * sum(job.gpus.values())
        of_partition = sums.setdefault(job.partition, [Amount(0.0, 0.0)] * (len(HORIZONS_S) + 2))
        is_in = [True, *(left_s is not None and left_s <= each for each in HORIZONS_S), left_s is None]
        for i, counts in enumerate(is_in):
            if counts:
                of_partition[i] = Amount(of_partition[i].cores + cores, of_partition[i].gpus + gpus)
    return [
        PartitionComingFree(scheduler, partition, running, _by(free, at), unlimited)
        for partition, (running, *free, unlimited) in sorted(sums.items())
    ]


def largest_partitions(partitions: Iterable[PartitionComingFree]) -> list[PartitionComingFree]:
    """Those on which most runs, the largest first; at most MOST_PARTITIONS_COMING_FREE."""
    ordered = sorted(
        partitions, key=lambda each: (-each.running.cores, -each.running.gpus, each.scheduler, each.partition)
    )
    return ordered[:MOST_PARTITIONS_COMING_FREE]


def _by(free: Iterable[Amount], at: datetime) -> list[ComesFree]:
    return [
        ComesFree(at + timedelta(seconds=within_s), *amount) for within_s, amount in zip(HORIZONS_S, free, strict=True)
    ]
