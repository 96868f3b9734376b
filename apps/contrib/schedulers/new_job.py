"""The place that a job submitted now would get in a listed queue: the priority of a new job, and the jobs ahead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from apps.accounts.account_keys import AccountKey
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.queue_table import TERMS
from apps.contrib.schedulers.selectors import VisibleQueue
from apps.contrib.schedulers.waiting import F8, competing_jobs, fair_share_part, held_jobs
from apps.priorities.serving.lookup import AccountQuery

_BY_ORDER = "Priority"  # why a new job waits: others are ahead
_AGE, _SITE = TERMS.index("age"), TERMS.index("site")


@dataclass(frozen=True, slots=True)
class NewJobPlace:
    """Where a job submitted now would wait. position: 1 goes first."""

    scheduler: str
    partition: Annotated[str, "Of the newest own job, else the one with most waiting jobs"]
    position: Annotated[int, "1 goes first"]
    of: Annotated[int, "Jobs that would compete in the partition, with the new one"]


@dataclass(frozen=True, eq=False, slots=True)
class NewJob:
    """A job that a user could submit now. cpus: None without one that waits. partition: empty where none waits."""

    scheduler: Scheduler
    user: str
    cpus: float | None
    partition: str


def usual_new_job(queue: VisibleQueue, own_rows: Sequence[int], user: str) -> NewJob:
    """As large as the newest of the user's waiting jobs (own_rows), and in its partition; else where most jobs wait."""
    table = queue.table
    model = _newest(queue, own_rows)
    cpus = None if model is None or not table.cpus[model] > 0 else float(table.cpus[model])  # NaN: unknown
    partition = _busiest_partition(queue) if model is None else table.best_partitions(model)
    return NewJob(queue.scheduler, user, cpus, partition)


def _newest(queue: VisibleQueue, rows: Sequence[int]) -> int | None:
    table = queue.table
    return max(rows, key=lambda i: (table.submit_us[i], table.number[i]), default=None)


def _busiest_partition(queue: VisibleQueue) -> str:
    return next((name for name, _n in Counter(queue.table.partition).most_common(1)), "")


def place_new_job(queue: VisibleQueue, own_rows: Sequence[int], keys: Sequence[AccountKey]) -> NewJobPlace | None:
    """own_rows: listed jobs of the user's accounts (keys). None if the priority of a new job isn't known.

    A new job is as the newest own one in all but its age; without own jobs it is a usual one of the partition where
    most wait, with the value that the agent gives to the account. Jobs of equal priority are older and go first.
    """
    table = queue.table
    held = held_jobs(queue)
    model = _newest(queue, [i for i in own_rows if not np.isnan(table.priority[i]) and not held[i]])
    if model is not None:
        partition, priority = table.best_partitions(model), float(table.priority[model] - _age_part(queue)[model])
    else:
        partition = _busiest_partition(queue)
        priority = _usual_priority(queue, partition, keys)
    if np.isnan(priority):
        return None
    rivals = competing_jobs(queue, partition, _BY_ORDER)
    n_ahead = int((rivals & (table.priority_in(partition.split(",")) >= priority)).sum())
    return NewJobPlace(queue.scheduler.name, partition, n_ahead + 1, int(rivals.sum()) + 1)


def _age_part(queue: VisibleQueue) -> F8:
    """What waiting has added to each job's priority; 0 where the agent's value is the whole priority."""
    if queue.scheduler.knob == "priority":
        return np.zeros(len(queue.table))
    age: F8 = np.nan_to_num(queue.table.terms[:, _AGE])
    return age


def _usual_priority(queue: VisibleQueue, partition: str, keys: Sequence[AccountKey]) -> float:
    """NaN unless the scheduler adds the agent's value to terms that others of the partition have."""
    scheduler, table = queue.scheduler, queue.table
    factor = _best_factor(queue, keys)
    is_sum = scheduler.kind == Scheduler.Kind.SLURM
    if factor is None or not is_sum or scheduler.mode != Scheduler.Mode.ON or scheduler.is_paused:
        return np.nan
    scaled = round(factor * scheduler.weight)
    if scheduler.knob == "priority":
        return float(1 + scaled)
    rivals = np.flatnonzero(competing_jobs(queue, partition, _BY_ORDER) & ~np.isnan(table.priority))
    fair = [fair_share_part(queue, i) for i in rivals[:1].tolist()]
    if not fair or fair[0] is None:
        return np.nan
    rest = table.priority - fair[0] - _age_part(queue)
    value = scaled if scheduler.knob == "sitefactor" else scaled - scheduler.weight
    return float(np.median(rest[rivals])) + value


def _best_factor(queue: VisibleQueue, keys: Sequence[AccountKey]) -> float | None:
    """Of the user's accounts that run in the cluster; None if none is mapped."""
    snapshot, namespace = queue.snapshot, queue.scheduler.namespace
    if snapshot is None:
        return None
    factors = [
        float(snapshot.values.factor[entry])
        for key in keys
        if key.user_name and (not (namespace and key.namespace) or key.namespace == namespace)
        for entry in snapshot.index.find_certain(AccountQuery(key.user_name, key.group_name, namespace))
        if snapshot.values.has_factor[entry]
    ]
    return max(factors, default=None)
