"""Facts of the queue of jobs that its scheduler's agent listed, for the trees: those of the nodes that a job waits for.

Partitions that are ways into the same nodes are one queue; a job that names several partitions is in that of the first.
How much its user used before isn't in a listing, and so remains unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from apps.contrib.schedulers.queue_state import QueueJob, QueueState
from apps.contrib.starts.planned_starts import (
    PlannedJob,
    assumed_limit_s,
    cpus_in_use,
    ends_in_s,
    named_partitions,
    pools_of,
    time_limit_s,
    waiting_in_order,
)
from apps.contrib.starts.prediction.bases import PLAN
from apps.contrib.starts.prediction.queue_facts import FACTS, Lately, Numbers, Runners, Waiters, facts_of

_HOUR = timedelta(hours=1)


class AskedJob(NamedTuple):
    """A waiting job that gets a promise. recent_s: recent waits of such jobs at LEVELS; NaN: unknown."""

    job: QueueJob
    waited_s: float
    recent_s: tuple[float, ...]


def listed_facts(state: QueueState, planned: Mapping[str, PlannedJob], asked: Sequence[AskedJob]) -> Numbers:
    """FACTS of each asked job, (n, facts). planned: by number of the job. Each asked job competes for its start."""
    waiting = [job for job in waiting_in_order(state) if not job.is_held and not job.dependency]
    limits = {each.name: each.limit_s for each in state.partitions}
    assumed_s = assumed_limit_s(state)
    pools = pools_of(state.partitions)
    users: dict[str, int] = {}
    place_of = {job.job: place for place, job in reversed(list(enumerate(waiting)))}  # of an array its first tasks
    pool_of = np.array([_pool(job, pools) for job in waiting], np.object_)
    waited_s = np.array([_since_s(job.submit_at, state.taken_at) for job in waiting])
    places = np.array([place_of[each.job.job] for each in asked], np.int64)
    waited_s[places] = [each.waited_s for each in asked]
    waiters = Waiters(
        np.array([_cpus(job, 1.0) for job in waiting]),
        np.array([assumed_s if (limit_s := time_limit_s(job, limits)) is None else limit_s for job in waiting]),
        waited_s,
        np.array([users.setdefault(job.user, len(users)) for job in waiting], np.int64),
        np.array([float(job.n_tasks) for job in waiting]),
    )
    running = [job for job in state.jobs if job.state == "running"]
    runs_in = np.array([_pool(job, pools) for job in running], np.object_)
    runners = Runners(
        np.array([_cpus(job, 0.0) for job in running], np.float64),
        np.array([ends_in_s(job, state.taken_at, limits, assumed_s) for job in running], np.float64),
        np.array([users.setdefault(job.user, len(users)) for job in running], np.int64),
    )
    recent_s = np.array([each.recent_s for each in asked], np.float64)
    plan_s = np.array([planned[each.job.job].planned_s.get(PLAN, math.nan) for each in asked])
    facts = np.empty((len(asked), len(FACTS)))
    for pool in dict.fromkeys(pool_of[places].tolist()):
        is_in, is_asked = pool_of == pool, pool_of[places] == pool
        facts[is_asked] = facts_of(
            (np.cumsum(is_in) - 1)[places[is_asked]],
            Waiters(*(column[is_in] for column in waiters)),
            Runners(*(column[runs_in == pool] for column in runners)) if state.has_running else None,
            max((cpus_in_use(each) for each in state.partitions if pools[each.name] == pool), default=math.nan),
            at_s=state.taken_at.timestamp(),
            plan_s=plan_s[is_asked],
            share_of_use=np.full(int(is_asked.sum()), np.nan),
            lately=Lately(recent_s[is_asked], *_starts(state)),
        )
    return facts


def _starts(state: QueueState) -> tuple[float, float]:
    """Seconds since a job of the scheduler started, and how many listed ones did in the last hour; NaN: unknown."""
    if not state.has_running:
        return math.nan, math.nan
    ran = [*(job.start_at for job in state.jobs if job.state == "running"), *(each.start_at for each in state.ended)]
    starts = [start_at for start_at in ran if start_at is not None and start_at <= state.taken_at]
    last_s = min((_since_s(start_at, state.taken_at) for start_at in starts), default=math.nan)
    return last_s, float(sum(start_at > state.taken_at - _HOUR for start_at in starts))


def _since_s(instant: datetime | None, at: datetime) -> float:
    return 0.0 if instant is None else max((at - instant).total_seconds(), 0.0)


def _pool(job: QueueJob, pools: Mapping[str, str]) -> str:
    name = next(iter(named_partitions(job)), "")
    return pools.get(name, name)


def _cpus(job: QueueJob, unknown: float) -> float:
    return unknown if math.isnan(job.cpus) else job.cpus
