"""Planned starts of a queue as a scheduler lists it: jobs, partitions and reservations by name, in columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from apps.contrib.starts.prediction.plan import NEVER_S, TOLERANCE, Taken, Waiting, plan_starts

_CPUS, _GPUS = "cpus", "gpus"  # columns of a pool; one more for each type of GPU, under its name
_ANY_TYPE = ("", "gpu")  # of GPUs whose type nobody named
Column = tuple[str, str, str]  # pool, resource, type


class NeverStarts(StrEnum):
    """Why a job can't start on the machine as it is, however long it waits."""

    PARTITION = "partition"  # there is none of that name
    LIMIT = "limit"  # it asks for more time than the partition allows
    CPUS = "cpus"  # it asks for more processors than the partition has in use or free
    GPUS = "gpus"  # of that type
    TAKEN = "taken"  # what it asks for is reserved, or run by others, without an end


class PlanPartition(NamedTuple):
    """What a partition has for jobs: without nodes that are down or drained. pool: partitions of one share nodes."""

    name: str
    cpus: float
    gpus: Mapping[str, float]  # by type
    limit_s: float | None = None
    pool: str | None = None


class PlanJob(NamedTuple):
    """A waiting job. length_s: its limit, or the partition's, or what was assumed; begin_s: from now."""

    partitions: tuple[str, ...]
    cpus: float
    gpus: Mapping[str, float]
    length_s: float
    begin_s: float = 0.0


class PlanSpan(NamedTuple):
    """What a running job or a reservation takes of a partition, in seconds from now. to_s: inf without an end."""

    partition: str
    cpus: float
    gpus: Mapping[str, float]
    from_s: float
    to_s: float


class PlannedStart(NamedTuple):
    """start_s: seconds from now, never NaN or infinite; None if the job never starts, with the reason."""

    start_s: float | None
    partition: str | None
    never: NeverStarts | None


def plan_queue(
    partitions: Sequence[PlanPartition], spans: Iterable[PlanSpan], jobs: Sequence[PlanJob]
) -> list[PlannedStart]:
    """Planned start of each job, in their order: the first one is planned first.

    A job that can't start in any of its partitions takes nothing. Spans of unknown partitions are left out.
    """
    by_name = {each.name: each for each in partitions}
    columns, capacity = _columns(partitions)
    taken: list[tuple[int, float, float, float]] = []
    for span in spans:
        if span.partition in by_name:
            parts = _parts(by_name[span.partition], span.cpus, span.gpus, columns)
            taken += [(column, amount, span.from_s, span.to_s) for column, amount in parts if column >= 0]
    reasons: list[NeverStarts | None] = []
    choices: list[PlanPartition] = []
    first_choice, first_part, parts_of_all = [0], [0], []
    for job in jobs:
        never = NeverStarts.PARTITION
        n_before = len(choices)
        for name in job.partitions:
            partition = by_name.get(name)
            if partition is None:
                continue
            reason = _never(partition, job, columns, capacity)
            if reason is None:
                choices.append(partition)
                parts_of_all += _parts(partition, job.cpus, job.gpus, columns)
                first_part.append(len(parts_of_all))
            else:
                never = reason
        reasons.append(None if len(choices) > n_before else never)
        first_choice.append(len(choices))
    starts, chosen = plan_starts(
        np.array(capacity, np.float64),
        Taken(
            np.array([each[0] for each in taken], np.int64),
            *(np.array([each[place] for each in taken], np.float64) for place in (1, 2, 3)),
        ),
        Waiting(
            np.array([max(job.begin_s, 0.0) for job in jobs], np.float64),
            np.array([job.length_s for job in jobs], np.float64),
            np.array(first_choice, np.int64),
            np.array(first_part, np.int64),
            np.array([column for column, _amount in parts_of_all], np.int64),
            np.array([amount for _column, amount in parts_of_all], np.float64),
        ),
        np.flatnonzero([reason is None for reason in reasons]),
    )
    planned = []
    for start_s, choice, reason in zip(starts.tolist(), chosen.tolist(), reasons, strict=True):
        if reason is None and start_s == NEVER_S:
            reason = NeverStarts.TAKEN
        ends = reason is not None
        planned.append(PlannedStart(None if ends else start_s, None if ends else choices[choice].name, reason))
    return planned


def _columns(partitions: Sequence[PlanPartition]) -> tuple[dict[Column, int], list[float]]:
    """Places of the columns, and what each has: of partitions that share nodes the largest amount."""
    amounts: dict[Column, float] = {}
    for each in partitions:
        pool = each.pool or each.name
        of_pool = {(pool, _CPUS, ""): each.cpus, (pool, _GPUS, ""): math.fsum(each.gpus.values())}
        of_pool |= {(pool, _GPUS, kind): n for kind, n in each.gpus.items() if kind not in _ANY_TYPE}
        for column, amount in of_pool.items():
            amounts[column] = max(amounts.get(column, 0.0), amount)
    return {column: place for place, column in enumerate(amounts)}, list(amounts.values())


def _parts(
    partition: PlanPartition, cpus: float, gpus: Mapping[str, float], columns: Mapping[Column, int]
) -> list[tuple[int, float]]:
    """Columns and amounts; -1 for a type of GPU that the partition hasn't."""
    pool = partition.pool or partition.name
    parts = [(columns[pool, _CPUS, ""], cpus)] if cpus > 0 else []
    of_all = math.fsum(gpus.values())
    if of_all > 0:
        parts.append((columns[pool, _GPUS, ""], of_all))
        parts += [
            (columns.get((pool, _GPUS, kind), -1), n) for kind, n in gpus.items() if n > 0 and kind not in _ANY_TYPE
        ]
    return parts


def _never(
    partition: PlanPartition, job: PlanJob, columns: Mapping[Column, int], capacity: Sequence[float]
) -> NeverStarts | None:
    if partition.limit_s is not None and job.length_s > partition.limit_s:
        return NeverStarts.LIMIT
    if job.cpus > partition.cpus + TOLERANCE:
        return NeverStarts.CPUS
    for column, amount in _parts(partition, 0.0, job.gpus, columns):
        if column < 0 or amount > capacity[column] + TOLERANCE:
            return NeverStarts.GPUS
    return None
