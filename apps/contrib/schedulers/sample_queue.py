"""Jobs of the sample cluster over some days, each with its submission, start and end, as its agent lists them."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

FIRST_NUMBER = 33_700  # of the jobs that wait at the end
_MEAN_WAIT_S = 20_000.0
_LIMITS_S = (3_600, 4 * 3_600, 12 * 3_600, 24 * 3_600)
_CPUS = (1, 8, 16, 64, 128)
_PARTITIONS = ("batch", "batch", "long")
_CORES = {"batch": 4_096, "long": 3_072}  # capacity; what runs is below it
_CORES_OF_NODE = 64
Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class SampleJob:
    """start_at: after the end of the sample for jobs that wait then."""

    number: int
    name: Name  # user, group
    partition: str
    cpus: int
    limit_s: int
    submit_at: datetime
    start_at: datetime
    end_at: datetime


def sample_jobs(
    rng: random.Random, names: Sequence[Name], others: Sequence[Name], since_at: datetime, at: datetime
) -> list[SampleJob]:
    """At each instant since the first as many jobs wait as there are names, those of `names` at the last.

    When a job starts, another of one of the others is submitted: the queue stays as long as it is.
    """
    last, earlier = [], []
    for i, name in enumerate(names):
        submit_at = at - _wait(rng)
        last.append(_job(rng, FIRST_NUMBER + i, name, submit_at, at + timedelta(days=1)))
        while submit_at > since_at:
            start_at = submit_at
            submit_at = start_at - _wait(rng)
            earlier.append((submit_at, rng.choice(others), start_at))
    first = FIRST_NUMBER - len(earlier)
    return [
        _job(rng, first + i, name, submit_at, start_at) for i, (submit_at, name, start_at) in enumerate(sorted(earlier))
    ] + last


def _wait(rng: random.Random) -> timedelta:
    return timedelta(seconds=int(rng.expovariate(1 / _MEAN_WAIT_S)) + 1)


def _job(rng: random.Random, number: int, name: Name, submit_at: datetime, start_at: datetime) -> SampleJob:
    limit_s = rng.choice(_LIMITS_S)
    end_at = start_at + timedelta(seconds=int(limit_s * rng.uniform(0.1, 1.0)))
    return SampleJob(number, name, rng.choice(_PARTITIONS), rng.choice(_CPUS), limit_s, submit_at, start_at, end_at)


def waiting_at(jobs: Iterable[SampleJob], at: datetime) -> list[SampleJob]:
    return [job for job in jobs if job.submit_at <= at < job.start_at]


def queue_state_at(jobs: Sequence[SampleJob], before_at: datetime, at: datetime) -> dict[str, Any]:
    """Running jobs, those that ended since the report before it, and capacity, as in an agent's report."""
    running = [job for job in jobs if job.start_at <= at < job.end_at]
    shapes: defaultdict[tuple[Name, str, int, int], list[SampleJob]] = defaultdict(list)
    for job in running:
        shapes[job.name, job.partition, job.cpus, job.limit_s].append(job)
    ended = [_ended(job) for job in jobs if before_at < job.end_at <= at]
    return {"running": list(_shapes(shapes)), "ended": ended, "partitions": list(_partitions(running))}


def _ended(job: SampleJob) -> dict[str, Any]:
    times = {"started_at": job.start_at.isoformat(), "ended_at": job.end_at.isoformat()}
    return {"job": str(job.number), "cancelled": False, **times}


def _shapes(shapes: dict[tuple[Name, str, int, int], list[SampleJob]]) -> Iterator[dict[str, Any]]:
    for ((user, group), partition, cpus, limit_s), alike in sorted(shapes.items()):
        yield {
            "user": user,
            "group": group,
            "partition": partition,
            "qos": "normal",
            "cpus": cpus,
            "limit_s": limit_s,
            "jobs": [str(job.number) for job in alike],
            "submitted": [int(job.submit_at.timestamp()) for job in alike],
            "started": [int(job.start_at.timestamp()) for job in alike],
        }


def _partitions(running: Iterable[SampleJob]) -> Iterator[dict[str, Any]]:
    used: defaultdict[str, int] = defaultdict(int)
    for job in running:
        used[job.partition] += job.cpus
    for name, cores in _CORES.items():
        yield {
            "name": name,
            "up": True,
            "limit_s": max(_LIMITS_S),
            "cpus": cores,
            "cpus_free": max(cores - used[name], 0),
            "nodes": cores // _CORES_OF_NODE,
            "nodes_down": 0,
            "nodes_drained": 0,
        }
