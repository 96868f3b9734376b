"""What a scheduler's agent last listed of its queue: waiting and running jobs, capacity by partition, reservations."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import numpy as np

from apps.contrib.schedulers.models import RunningListing, Scheduler
from apps.contrib.schedulers.queue_table import STATES, QueueTable, load_queue
from apps.contrib.schedulers.running_table import NO_SECOND, RunningTable, unpack_running
from apps.usage.parsers.base import instant

_TASKS = re.compile(r"([0-9]+)(?:-([0-9]+)(?::([1-9][0-9]*))?)?")
_MOST_LISTED_TASKS = 10_000_000  # of an array: Slurm has at most 4,000,001
_HELD = STATES.index("held")


class QueueJob(NamedTuple):
    """One waiting or running job; the waiting tasks of an array are one job.

    job: its number in the scheduler. cpus, gpus by type, nodes: of one task. limit_s: seconds that it may run; None for
    unlimited, unset or unknown. begin_at: earliest start that its user wants. planned_at: the scheduler's own estimate.
    array: number of its array; empty for none. n_tasks: tasks that wait together.
    """

    job: str
    user: str
    account: str
    partition: str  # several: with commas between
    qos: str
    state: Literal["waiting", "running"]
    cpus: float  # NaN: unknown
    gpus: Mapping[str, float]
    nodes: int | None
    limit_s: float | None
    submit_at: datetime | None
    start_at: datetime | None
    begin_at: datetime | None
    planned_at: datetime | None
    dependency: bool
    reason: str
    priority: float | None
    is_held: bool = False
    array: str = ""
    n_tasks: int = 1


class PartitionState(NamedTuple):
    """Capacity of one partition. Partitions may share nodes, so that sums over partitions count these twice.

    cpus_free, gpus_free: idle on nodes that take jobs. nodes_down, nodes_drained: nodes that take none, and why.
    limit_s: longest run time; None for unlimited or unknown.
    """

    name: str
    cpus: float
    cpus_free: float
    gpus: Mapping[str, float]
    gpus_free: Mapping[str, float]
    nodes: int
    nodes_down: int
    nodes_drained: int
    limit_s: float | None
    is_up: bool = True


class Reservation(NamedTuple):
    """Nodes set aside for a time. nodes, cpus: None if unknown."""

    name: str
    begin_at: datetime
    end_at: datetime
    partition: str
    nodes: int | None
    cpus: float | None
    is_maintenance: bool


class EndedJob(NamedTuple):
    """A job that left the queue a short while ago. start_at: None if it never ran. array: as of a `QueueJob`."""

    job: str
    array: str
    is_cancelled: bool
    start_at: datetime | None
    end_at: datetime


class QueueState(NamedTuple):
    """One listing. has_running, has_reservations: whether these were listed. partitions: empty if none were listed.

    ended: as long as the scheduler still lists them. n_omitted: jobs that the agent left out, because there were too
    many: a job that isn't listed may still be there.
    """

    taken_at: datetime
    jobs: Sequence[QueueJob]
    partitions: Sequence[PartitionState] = ()
    reservations: Sequence[Reservation] = ()
    ended: Sequence[EndedJob] = ()
    has_running: bool = False
    n_omitted: int = 0
    has_reservations: bool = False

    def longest_s(self, job: QueueJob) -> float | None:
        """How long a job may run: its own limit, else the longest of its partitions; None without any."""
        if job.limit_s is not None:
            return job.limit_s
        named = job.partition.split(",")
        limits = [each.limit_s for each in self.partitions if each.name in named]
        return max((limit for limit in limits if limit is not None), default=None) if None not in limits else None


def load_queue_state(scheduler: Scheduler) -> QueueState | None:
    """The last listing of a scheduler's agent; None if there is none."""
    listing = load_listing(scheduler)
    return None if listing is None else listing[1]


def load_listing(scheduler: Scheduler) -> tuple[QueueTable, QueueState] | None:
    """The last listing: the table of its waiting jobs, and a state whose first jobs are these; None without one."""
    table = load_queue(scheduler.pk)
    if table is None or table.taken_at is None:
        return None
    running = RunningListing.objects.filter(scheduler=scheduler, taken_at=table.taken_at).first()
    return table, state_of(table, None if running is None else unpack_running(running), table.taken_at)


def state_of(table: QueueTable, running: RunningTable | None, taken_at: datetime) -> QueueState:
    waiting = tuple(_waiting_job(table, i, taken_at) for i in range(len(table)))
    if running is None:
        return QueueState(taken_at=taken_at, jobs=waiting)
    return QueueState(
        taken_at=taken_at,
        jobs=(*waiting, *_running_jobs(running)),
        partitions=tuple(_partition(row) for row in running.partitions or ()),
        reservations=tuple(_reservations(running.reservations or ())),
        ended=tuple(_ended_jobs(running)),
        has_running=True,
        n_omitted=running.n_omitted,
        has_reservations=running.reservations is not None,
    )


def _waiting_job(table: QueueTable, i: int, taken_at: datetime) -> QueueJob:
    user, account = table.accounts[int(table.account[i])]
    sizes, reason = table.sizes, table.reason[i]
    eligible_at = instant(int(table.eligible_us[i]))
    return QueueJob(
        job=table.job[i],
        user=user,
        account=account,
        partition=table.partition[i],
        qos=table.qos[i],
        state="waiting",
        cpus=float(table.cpus[i]),
        gpus=sizes.gpus.get(i, {}) if sizes else {},
        nodes=_whole(sizes.nodes[i]) if sizes else None,
        limit_s=_known(sizes.limit_s[i]) if sizes else None,
        submit_at=instant(int(table.submit_us[i])),
        start_at=None,
        begin_at=eligible_at if eligible_at is not None and eligible_at > taken_at else None,
        planned_at=instant(int(sizes.planned_us[i])) if sizes else None,
        dependency=bool(sizes.dependency[i]) if sizes else reason.startswith("Dependency"),
        reason=reason,
        priority=_known(table.priority[i]),
        is_held=int(table.state[i]) == _HELD,
        array=table.job[i] if table.array_task[i] else "",
        n_tasks=n_tasks(table.array_task[i]),
    )


def n_tasks(tasks: str) -> int:
    """Number of tasks as Slurm lists them (`3`, `1-9:2,12%4`), at least 1. A list that Slurm cuts has more."""
    number = 0
    for part in tasks.partition("%")[0].split(","):
        match = _TASKS.fullmatch(part)
        if match is not None:
            first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
            number += max((last - first) // step + 1, 0)
    return min(max(number, 1), _MOST_LISTED_TASKS)


def _running_jobs(table: RunningTable) -> Iterator[QueueJob]:
    times = zip(table.submit_s.tolist(), table.start_s.tolist(), strict=True)
    for job, shape, (submit_s, start_s) in zip(table.job, table.shape.tolist(), times, strict=True):
        of = table.shapes[shape]
        yield QueueJob(
            job=job,
            user=of["user"],
            account=of["group"],
            partition=of["partition"],
            qos=of["qos"],
            state="running",
            cpus=math.nan if of["cpus"] is None else of["cpus"],
            gpus=of["gpus"],
            nodes=None if of["nodes"] is None else int(of["nodes"]),
            limit_s=of["limit_s"],
            submit_at=_at_second(submit_s),
            start_at=_at_second(start_s),
            begin_at=None,
            planned_at=None,
            dependency=False,
            reason="",
            priority=None,
            array=of["array"],
        )


def _ended_jobs(table: RunningTable) -> Iterator[EndedJob]:
    times = zip(table.ended_start_us.tolist(), table.ended_us.tolist(), strict=True)
    named = zip(table.ended_job, table.ended_array, table.ended_cancelled.tolist(), strict=True)
    for (job, array, is_cancelled), (start_us, end_us) in zip(named, times, strict=True):
        end_at = instant(end_us)
        if end_at is not None:
            yield EndedJob(job, array, is_cancelled, instant(start_us), end_at)


def _partition(row: Mapping[str, Any]) -> PartitionState:
    return PartitionState(**{name: row[name] for name in row if name != "up"}, is_up=row["up"])


def _reservations(rows: Sequence[Mapping[str, Any]]) -> Iterator[Reservation]:
    for row in rows:
        begin_at, end_at = instant(row["begin_at"]), instant(row["end_at"])
        nodes = None if row["nodes"] is None else int(row["nodes"])
        if begin_at is not None and end_at is not None:
            yield Reservation(row["name"], begin_at, end_at, row["partition"], nodes, row["cpus"], row["maintenance"])


def _known(number: np.float64) -> float | None:
    return None if np.isnan(number) else float(number)


def _whole(number: np.float64) -> int | None:
    return None if np.isnan(number) else int(number)


def _at_second(second: int) -> datetime | None:
    return None if second == NO_SECOND else datetime.fromtimestamp(second, UTC)
