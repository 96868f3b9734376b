"""Running and waiting jobs of a policy's schedulers by the rows of a level, from what their agents listed last."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import isfinite
from typing import Annotated

import numpy as np
import numpy.typing as npt

from apps.accounts.partition_accounts import first_partition
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.queue_state import QueueJob, QueueState, load_queue_state
from apps.contrib.schedulers.selectors import SILENT_INTERVALS, SchedulerView, views_of
from apps.contrib.schedulers.wait_reasons import competes
from apps.contrib.starts.now.coming_free import PartitionComingFree, coming_free, largest_partitions
from apps.contrib.starts.now.level import NO_ROW, Level
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.document_merge import indexes_of
from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.suppression import is_large_enough

_SUMS = ("jobs", "cores_running", "cores_waiting", "gpus_running", "gpus_waiting")
F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
_JobKey = tuple[str, str, str, str, datetime]


@dataclass(frozen=True, slots=True)
class ListedScheduler:
    """A scheduler that the rows count, or can't count now."""

    name: str
    taken_at: Annotated[datetime | None, "When its agent last listed the queue; null: never"]
    is_counted: Annotated[bool, "Whether its jobs are in the rows: its agent lists running jobs, and does so now"]


@dataclass(frozen=True, eq=False, slots=True)
class UserCores:
    """Cores by row and user name."""

    of: Mapping[tuple[int, str], float] = field(default_factory=dict)

    def is_safe(self, rows: Collection[int], smallest: int) -> bool:
        """Whether the sum of some rows is of enough users, and not mostly of one; also where it is empty."""
        by_user: defaultdict[str, float] = defaultdict(float)
        for (row, user), cores in self.of.items():
            if row in rows and cores > 0:
                by_user[user] += cores
        if not by_user:
            return True
        cores_of = list(by_user.values())
        return bool(is_large_enough(len(cores_of), sum(cores_of), max(cores_of), smallest=smallest))


@dataclass(frozen=True, eq=False)
class ListedJobs:
    """Sums by row, (rows,). running and waiting are None where no scheduler lists running jobs now.

    jobs: waiting tasks. cores_waiting, gpus_waiting: of the jobs that could start now, if there was room.
    users_running, users_waiting: of whom the cores are.
    unsized: jobs whose number of cores isn't known; they count as none. coming_free: of the running ones.
    """

    schedulers: Sequence[ListedScheduler]
    jobs: I8
    cores_running: F8
    cores_waiting: F8
    gpus_running: F8
    gpus_waiting: F8
    unsized: int
    coming_free: Sequence[PartitionComingFree] = ()
    users_running: UserCores = field(default_factory=UserCores)
    users_waiting: UserCores = field(default_factory=UserCores)

    @property
    def is_counted(self) -> bool:
        return any(each.is_counted for each in self.schedulers)


def load_listed_jobs(
    policy: Policy, tree: TreeColumns, snapshot: ServedSnapshot | None, level: Level, at: datetime
) -> ListedJobs:
    """Sum up the jobs of all schedulers of the policy. A listing that isn't of now is left out, as an old number would
    pass for the present one. A job that the agents of two schedulers list, as of one that gets ranks and one that gets
    limits, counts once.
    """
    total, listed, counted = no_jobs(len(level.rows)), list[ListedScheduler](), set[_JobKey]()
    free: list[PartitionComingFree] = []
    schedulers = Scheduler.objects.select_related("policy").filter(policy=policy).order_by("name")
    for view in views_of(schedulers, at) if snapshot is not None else ():
        state = load_queue_state(view.scheduler) if view.has_begun else None
        is_counted = state is not None and state.has_running and view.lists_queue and is_of_now(view)
        listed.append(ListedScheduler(view.scheduler.name, None if state is None else state.taken_at, is_counted))
        if state is not None and snapshot is not None and is_counted:
            rows = level.of_entries(entries_of_jobs(state.jobs, tree, snapshot, view.scheduler.namespace))
            keys = [_key_of(job, view.scheduler.kind) for job in state.jobs]
            rows[np.array([key in counted for key in keys], np.bool_)] = NO_ROW
            counted.update(key for key in keys if key is not None)
            total = add_jobs(total, state, rows, view.scheduler.kind)
            free += coming_free(view.scheduler.name, state, rows, at)
    return replace(total, schedulers=listed, coming_free=largest_partitions(free))


def is_of_now(view: SchedulerView) -> bool:
    """Whether its agent has reported lately, also if the scheduler is off: then its agent may have been stopped."""
    return view.age_s is not None and view.age_s <= SILENT_INTERVALS * view.scheduler.every_s


def _key_of(job: QueueJob, kind: str) -> _JobKey | None:
    """What a job differs in from those of other clusters, which have the same numbers; None if that isn't known."""
    return None if job.submit_at is None else (kind, job.job, job.array, job.user, job.submit_at)


def no_jobs(n_rows: int) -> ListedJobs:
    zeros = np.zeros(n_rows)
    return ListedJobs([], np.zeros(n_rows, np.int64), zeros, zeros, zeros, zeros, 0)


def add_jobs(total: ListedJobs, state: QueueState, row: I8, kind: str) -> ListedJobs:
    """With the jobs of one listing. row: of each job; −1 for jobs of none. kind: of the scheduler, for its reasons."""
    sums = {name: getattr(total, name).copy() for name in _SUMS}
    users = {"running": dict(total.users_running.of), "waiting": dict(total.users_waiting.of)}
    unsized = total.unsized
    for job, at in zip(state.jobs, row.tolist(), strict=True):
        if at < 0:
            continue
        is_running = job.state == "running"
        sums["jobs"][at] += 0 if is_running else job.n_tasks
        if not is_running and not could_start(job, state.taken_at, kind):
            continue
        has_size = isfinite(job.cpus)
        unsized += not has_size
        where = "running" if is_running else "waiting"
        cores = job.n_tasks * job.cpus if has_size else 0.0
        sums[f"cores_{where}"][at] += cores
        users[where][at, job.user] = users[where].get((at, job.user), 0.0) + cores
        sums[f"gpus_{where}"][at] += job.n_tasks * sum(job.gpus.values())
    running, waiting = UserCores(users["running"]), UserCores(users["waiting"])
    return replace(total, **sums, unsized=unsized, users_running=running, users_waiting=waiting)


def could_start(job: QueueJob, taken_at: datetime, kind: str) -> bool:
    """Whether a waiting job would start if there was room: it isn't held, waits for no other job, limit or time."""
    if job.is_held or job.dependency or (job.begin_at is not None and job.begin_at > taken_at):
        return False
    return competes(kind, job.reason, with_one_of="")


def entries_of_jobs(jobs: Sequence[QueueJob], tree: TreeColumns, snapshot: ServedSnapshot, namespace: str) -> I8:
    """The entry of each job's account in the tree, as look-ups find it, (n,); −1 if unmapped or removed.

    Of several entries of an account the best ranked one, as in the queue.
    """
    rank = np.where(snapshot.values.has_rank, snapshot.values.rank, np.inf)
    index_of, known = indexes_of(snapshot.tree.uid, tree), dict[AccountQuery, int]()

    def entry_of(query: AccountQuery) -> int:
        matches = snapshot.index.find_certain(query)
        best = min(matches, key=lambda i: (rank[i], -snapshot.values.factor[i]), default=-1)
        return int(index_of[best]) if best >= 0 else -1

    entries = np.full(len(jobs), -1, np.int64)
    for i, job in enumerate(jobs):
        partition = first_partition(job.partition)
        if partition not in snapshot.index.named.partitions_of(job.user):
            partition = ""
        query = AccountQuery(job.user, job.account, namespace, partition=partition)
        if query not in known:
            known[query] = entry_of(query)
        entries[i] = known[query]
    return entries
