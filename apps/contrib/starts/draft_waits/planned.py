"""Plan a listed queue twice, in the order of the published factors and in that of a draft, and compare by group.

Both plans are those of `planned_starts`, with the same jobs, capacity and asked times. They differ in the order alone:
so a difference is the draft's, and what is wrong with the plan is wrong in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from apps.contrib.schedulers.factor_priorities import adds_up, priorities_of_factors
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.queue_state import QueueState
from apps.contrib.schedulers.queue_table import QueueTable
from apps.contrib.starts.now.wait_statistics import LEAST_WAIT_JOBS
from apps.contrib.starts.planned_starts import NOT_PLANNED, planned_starts
from apps.contrib.starts.prediction.bases import PLAN

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]


class TwoPlans(NamedTuple):
    """Seconds from the listing to the planned start of each waiting job, (n,); NaN for a job without one."""

    published: F8
    draft: F8

    @property
    def has_both(self) -> npt.NDArray[np.bool_]:
        return ~(np.isnan(self.published) | np.isnan(self.draft))


class Waits(NamedTuple):
    """Median and 90th percentile by the published policy, then under the draft; of so many jobs."""

    jobs: int
    median_s: float
    p90_s: float
    draft_median_s: float
    draft_p90_s: float


def plan_twice(state: QueueState, table: QueueTable, scheduler: Scheduler, factors: tuple[F8, F8]) -> TwoPlans:
    """state, table: of the same listing. factors: of each waiting job by both, (n,); NaN: it keeps its priority."""
    return TwoPlans(*(_planned_s(state, _priorities(table, scheduler, factor)) for factor in factors))


def _priorities(table: QueueTable, scheduler: Scheduler, factor: F8) -> F8:
    """By factors alone where priorities don't add up: those without one last, as the agent leaves them."""
    return priorities_of_factors(table, scheduler, factor) if adds_up(scheduler) else factor


def _planned_s(state: QueueState, priority: F8) -> F8:
    """priority: of the waiting jobs in their order, which are the first ones of the listing. Of tasks of an array that
    are listed apart the first one has the start of the array.
    """
    listed = [None if np.isnan(each) else float(each) for each in priority]
    waiting = [job._replace(priority=each) for job, each in zip(state.jobs, listed, strict=False)]
    planned = planned_starts(state._replace(jobs=(*waiting, *state.jobs[len(waiting) :])))
    starts = (planned.pop(job.job, NOT_PLANNED).planned_s for job in waiting)
    return np.array([each.get(PLAN, np.nan) for each in starts], np.float64)


def waits_by_row(plans: TwoPlans, row: I8, n_rows: int) -> Sequence[Waits | None]:
    """Of each row of a table; None for one with fewer than LEAST_WAIT_JOBS jobs that both plans place.

    row: (n,) of each waiting job; −1 for jobs of none.
    """
    return [_waits(plans, np.flatnonzero(plans.has_both & (row == i))) for i in range(n_rows)]


def _waits(plans: TwoPlans, jobs: I8) -> Waits | None:
    if len(jobs) < LEAST_WAIT_JOBS:
        return None
    quantiles = [np.quantile(each[jobs], (0.5, 0.9)).tolist() for each in plans]
    return Waits(len(jobs), *quantiles[0], *quantiles[1])
