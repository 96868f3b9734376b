"""The order of a scheduler's waiting jobs as it is, beside the one that the agent's values would make."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.queue_table import TERMS, QueueTable
from apps.contrib.schedulers.selectors import VisibleQueue, open_queue
from apps.contrib.schedulers.waiting import held_jobs, priority_of, starting_order

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_TERM_OF = {"sitefactor": "site", "nice": "nice"}


@dataclass(frozen=True, slots=True)
class JobMove:
    """A job whose place in the queue would change. Places from 1; rank: of its entry in the policy, None: unmapped."""

    job: str
    array_task: str | None
    user: str
    group: str
    path: str
    before: int
    after: int
    rank: int | None
    of: int | None

    @property
    def n_up(self) -> int:
        """Places nearer to the front; negative: farther."""
        return self.before - self.after

    @property
    def n_down(self) -> int:
        return -self.n_up


@dataclass(frozen=True, slots=True)
class SwitchedQueue:
    """n_jobs: waiting jobs with a priority that aren't held. n_moved: of these, whose place changes; None: unknown.

    n_valued: jobs whose present value and the agent's are known; n_differing: of these, differing by a step or more.
    moves: the largest, of either direction.
    """

    taken_at: datetime | None
    n_jobs: int
    n_moved: int | None
    moves: tuple[JobMove, ...]
    n_valued: int
    n_differing: int

    @property
    def n_kept(self) -> int:
        """Jobs that keep their place."""
        return self.n_jobs - (self.n_moved or 0)


def compare_orders(queue: VisibleQueue, *, limit: int) -> SwitchedQueue:
    """Compare both orders over the whole listing; for readers who may see all of it."""
    table, scheduler = queue.table, queue.scheduler
    known = ~np.isnan(table.priority) & ~held_jobs(queue)
    present = _present_values(table, scheduler.knob)
    has_both = ~np.isnan(present) & ~np.isnan(table.value)
    differs = np.abs(present - table.value, where=has_both, out=np.zeros(len(table))) >= scheduler.step
    counts = {"n_valued": int(has_both.sum()), "n_differing": int((differs & has_both).sum())}
    switched = _switched_priorities(table, scheduler)
    if switched is None:
        return SwitchedQueue(table.taken_at, int(known.sum()), None, (), **counts)
    rows = np.flatnonzero(known)
    before, after = (_places(queue, priority, rows) for priority in (table.priority, switched))
    moved = np.flatnonzero(before != after)
    first = moved[np.lexsort((after[moved], -np.abs(before - after)[moved]))][:limit]
    moves = [_move(queue, int(rows[i]), int(before[i]), int(after[i])) for i in first.tolist()]
    return SwitchedQueue(table.taken_at, len(rows), len(moved), tuple(moves), **counts)


def open_switched_queue(scheduler: Scheduler, *, at: datetime, actor: Any, limit: int) -> SwitchedQueue | None:
    """The comparison for a manager of the policy; None before the first listing."""
    queue = open_queue(scheduler, at=at, actor=actor)
    return None if queue is None else compare_orders(queue, limit=limit)


def _present_values(table: QueueTable, knob: str) -> F8:
    """What the agent's setting is at each job now; NaN where the scheduler doesn't list it."""
    if knob in _TERM_OF:
        present: F8 = table.terms[:, TERMS.index(_TERM_OF[knob])]
        return present
    return table.priority if knob == "priority" else np.full(len(table), np.nan)


def _switched_priorities(table: QueueTable, scheduler: Scheduler) -> F8 | None:
    """Priorities with the agent's values; None where they aren't a sum, as with tickets.

    A job without a value, which the orders leave alone, keeps its priority, and so does one without terms.
    """
    if scheduler.kind != Scheduler.Kind.SLURM or (len(table) and np.isnan(table.value).all()):
        return None
    present = _present_values(table, scheduler.knob)
    change = np.nan_to_num(table.value - present)
    sign = -1.0 if scheduler.knob == "nice" else 1.0
    switched: F8 = np.where(table.priority > 0, np.maximum(table.priority + sign * change, 1.0), table.priority)
    return switched


def _places(queue: VisibleQueue, priority: F8, rows: I8) -> I8:
    """Place of each of these jobs among them, from 1; of equal priority as the scheduler takes them."""
    place = np.empty(len(queue.table), np.int64)
    place[starting_order(queue, rows, priority)] = np.arange(1, len(rows) + 1)
    return place[rows]


def _move(queue: VisibleQueue, i: int, before: int, after: int) -> JobMove:
    table, account = queue.table, int(queue.table.account[i])
    user, group = table.accounts[account]
    standing = priority_of(queue, account)
    return JobMove(
        job=table.job[i],
        array_task=table.array_task[i] or None,
        user=user,
        group=group,
        path=queue.path(account),
        before=before,
        after=after,
        rank=standing["rank"],
        of=standing["of"],
    )
