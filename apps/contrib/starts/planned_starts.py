"""Planned starts of a queue as its scheduler's agent listed it, and why some jobs have none."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np

from apps.contrib.schedulers.queue_state import PartitionState, QueueJob, QueueState, Reservation
from apps.contrib.starts.prediction.bases import PLAN, SCHEDULER
from apps.contrib.starts.prediction.queue_plan import NeverStarts, PlanJob, PlanPartition, PlanSpan, plan_queue

MOST_PLANNED_TASKS = 20_000  # of one scheduler, in the order in which it starts them; the others have no plan
OVERDUE_S = 60.0  # until a job ends that has reached its limit
UNKNOWN_LIMIT_S = 86_400.0  # of a job without a limit where no other job has one
_QUANTILE_OF_LIMITS = 0.95


class PlannedJob(NamedTuple):
    """planned_s: seconds from the listing by base (PLAN: ours, SCHEDULER: the scheduler's own); none for a job that
    doesn't compete. is_limit_assumed: neither the job nor its partition has a limit, so that it is a limit of others.
    """

    planned_s: Mapping[str, float]
    never: NeverStarts | None = None
    is_limit_assumed: bool = False


NOT_PLANNED = PlannedJob({})


def planned_starts(state: QueueState) -> dict[str, PlannedJob]:
    """By number of the job. Without capacity or running jobs in the listing there is only the scheduler's own plan.

    Jobs are planned by the scheduler's priority, then by submission. Held ones and those that wait for others aren't.
    """
    assumed_s = assumed_limit_s(state)
    waiting = waiting_in_order(state)
    planned: dict[str, PlannedJob] = {}  # of tasks that are listed apart, the ones that go first
    for each in waiting:
        if not planned.get(each.job, NOT_PLANNED).planned_s:
            planned[each.job] = PlannedJob(_scheduler_says(each, state.taken_at))
    if not state.partitions or not state.has_running:
        return planned
    limits = {each.name: each.limit_s for each in state.partitions}
    firsts: list[tuple[QueueJob, int, bool]] = []  # job, place of its first task, whether its limit is assumed
    tasks: list[PlanJob] = []
    for job in waiting:
        if job.is_held or job.dependency or len(tasks) >= MOST_PLANNED_TASKS:
            continue
        length_s = time_limit_s(job, limits)
        begin_s = 0.0 if job.begin_at is None else (job.begin_at - state.taken_at).total_seconds()
        cpus = 1.0 if math.isnan(job.cpus) else job.cpus
        plan_job = PlanJob(named_partitions(job), cpus, job.gpus, assumed_s if length_s is None else length_s, begin_s)
        firsts.append((job, len(tasks), length_s is None))
        tasks += [plan_job] * min(job.n_tasks, MOST_PLANNED_TASKS - len(tasks))
    pools = pools_of(state.partitions)
    starts = plan_queue([_plan_partition(each, pools) for each in state.partitions], _spans(state, pools), tasks)
    for job, place, is_assumed in firsts:
        if PLAN in planned[job.job].planned_s:
            continue
        start = starts[place]
        own_plan = {} if start.start_s is None else {PLAN: start.start_s}
        planned[job.job] = PlannedJob({**planned[job.job].planned_s, **own_plan}, start.never, is_assumed)
    return planned


def waiting_in_order(state: QueueState) -> list[QueueJob]:
    """Waiting jobs in the order in which the scheduler starts them, with those that are held or wait for others."""
    return sorted((job for job in state.jobs if job.state == "waiting"), key=_order)


def _scheduler_says(job: QueueJob, taken_at: datetime) -> dict[str, float]:
    """A plan in the past is none: the scheduler has not planned since."""
    if job.planned_at is None or job.planned_at <= taken_at or job.is_held or job.dependency:
        return {}
    return {SCHEDULER: (job.planned_at - taken_at).total_seconds()}


def _order(job: QueueJob) -> tuple[float, float, str]:
    submitted = math.inf if job.submit_at is None else job.submit_at.timestamp()
    return math.inf if job.priority is None else -job.priority, submitted, job.job


def named_partitions(job: QueueJob) -> tuple[str, ...]:
    return tuple(name for name in job.partition.split(",") if name)


def time_limit_s(job: QueueJob, limits: Mapping[str, float | None]) -> float | None:
    """Its limit, or the longest of its partitions; None if there is none."""
    if job.limit_s is not None:
        return max(job.limit_s, 1.0)
    of_partitions = [limit for name in named_partitions(job) if (limit := limits.get(name)) is not None]
    return max(of_partitions, default=None)


def ends_in_s(job: QueueJob, taken_at: datetime, limits: Mapping[str, float | None], assumed_s: float) -> float:
    """Seconds until a running job reaches its limit; assumed_s: limit of a job without any."""
    limit_s = time_limit_s(job, limits)
    began_s = 0.0 if job.start_at is None else (job.start_at - taken_at).total_seconds()
    return max(began_s + (assumed_s if limit_s is None else limit_s), OVERDUE_S)


def assumed_limit_s(state: QueueState) -> float:
    """For jobs without any limit: one that 95 % of the listed limits don't exceed."""
    limits = [each.limit_s for each in state.jobs if each.limit_s is not None]
    return float(np.quantile(limits, _QUANTILE_OF_LIMITS)) if limits else UNKNOWN_LIMIT_S


def _in_use(partition: PartitionState) -> float:
    """Share of its nodes that take jobs."""
    if not partition.is_up:
        return 0.0
    out = partition.nodes_down + partition.nodes_drained
    return max(1 - out / partition.nodes, 0.0) if partition.nodes > 0 else 1.0


def cpus_in_use(partition: PartitionState) -> float:
    """Processors of its nodes that take jobs."""
    return partition.cpus * _in_use(partition)


def _plan_partition(partition: PartitionState, pools: Mapping[str, str]) -> PlanPartition:
    gpus = {kind: n * _in_use(partition) for kind, n in partition.gpus.items()}
    return PlanPartition(partition.name, cpus_in_use(partition), gpus, partition.limit_s, pools[partition.name])


def pools_of(partitions: Sequence[PartitionState]) -> dict[str, str]:
    """Partitions whose nodes, capacity and free amounts are alike are taken for ways into the same nodes."""
    pools: dict[object, str] = {}
    of_partition = {}
    for each in partitions:
        gpus, free = sorted(each.gpus.items()), sorted(each.gpus_free.items())
        alike = each.nodes, each.cpus, each.cpus_free, tuple(gpus), tuple(free)
        of_partition[each.name] = pools.setdefault(alike, each.name) if each.nodes > 0 else each.name
    return of_partition


def _spans(state: QueueState, pools: Mapping[str, str]) -> list[PlanSpan]:
    """Running jobs until their limits, what jobs of overlapping partitions take, and reservations."""
    limits = {each.name: each.limit_s for each in state.partitions}
    assumed_s = assumed_limit_s(state)
    spans: list[PlanSpan] = []
    busy: defaultdict[str, float] = defaultdict(float)
    ends_s = []
    for job in state.jobs:
        if job.state != "running":
            continue
        to_s = ends_in_s(job, state.taken_at, limits, assumed_s)
        cpus = 0.0 if math.isnan(job.cpus) else job.cpus
        spans.append(PlanSpan(job.partition, cpus, job.gpus, 0.0, to_s))
        busy[pools.get(job.partition, "")] += cpus
        ends_s.append(to_s)
    spans += _others(state.partitions, pools, busy, float(np.median(ends_s)) if ends_s else OVERDUE_S)
    for reservation in state.reservations:
        spans += _reserved(reservation, state, pools)
    return spans


def _others(
    partitions: Sequence[PartitionState], pools: Mapping[str, str], busy: Mapping[str, float], ends_s: float
) -> list[PlanSpan]:
    """Processors that are busy without a job of the partition: of jobs that came through another partition.

    Nobody lists which, so they end when half of all running jobs do.
    """
    spans = []
    for each in partitions:
        if pools[each.name] == each.name:
            excess = cpus_in_use(each) - each.cpus_free - busy[each.name]
            if excess > 0:
                spans.append(PlanSpan(each.name, excess, {}, 0.0, ends_s))
    return spans


def _reserved(reservation: Reservation, state: QueueState, pools: Mapping[str, str]) -> list[PlanSpan]:
    """What a reservation takes of each pool: all of it, unless it says how many nodes or processors it takes.

    One without a partition is spread over all by their nodes, since the listing doesn't say which.
    """
    pool = pools.get(reservation.partition)
    reserved = [
        each
        for each in state.partitions
        if pools[each.name] == each.name and (not reservation.partition or each.name == pool)
    ]
    nodes, cpus = sum(each.nodes for each in reserved), sum(each.cpus for each in reserved)
    share = 1.0
    if reservation.nodes is not None and nodes > 0:
        share = min(reservation.nodes / nodes, 1.0)
    elif reservation.cpus is not None and cpus > 0:
        share = min(reservation.cpus / cpus, 1.0)
    from_s = (reservation.begin_at - state.taken_at).total_seconds()
    to_s = (reservation.end_at - state.taken_at).total_seconds()
    return [
        PlanSpan(each.name, each.cpus * share, {kind: n * share for kind, n in each.gpus.items()}, from_s, to_s)
        for each in reserved
    ]
