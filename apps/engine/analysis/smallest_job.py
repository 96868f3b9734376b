"""The smallest job that shows, for every entry of a computed tree and along every path."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apps.engine import codecs, sweep
from apps.engine.algorithms.aequus import operator_of, puts_zero_shares_last
from apps.engine.algorithms.base import PriorityResult
from apps.engine.algorithms.inputs import prepare
from apps.engine.analysis.density import highest_actual
from apps.engine.analysis.job_size import fraction_corrected
from apps.engine.arrays import FloatArray, IntArray
from apps.engine.parameters import Settings
from apps.engine.tree import FairshareTree

_EDGE = 1e-12


@dataclass(frozen=True, eq=False)
class SmallestJobs:
    """Usage of a job beyond which components change, (n,) over the entries, in the unit of the result's usage.

    here: the component of the entry itself. anywhere: any component of the entry's vector, so that the vector is
    another one. everywhere: all of them. Greatest lower bounds: 0 means that any job shows, infinity that none does.
    An entry without a component of its own (the root, *inherit*) has what is above it.
    """

    here: FloatArray
    anywhere: FloatArray
    everywhere: FloatArray


def smallest_jobs(result: PriorityResult, resolution: int | None = None) -> SmallestJobs:
    """For a result of `aequus`, at its own resolution or another one; a job is booked on the entry and all above it.

    By the corrected equation k = D/(1 − s − D) of the usage g of the entry's group: the job is k · g. Source: operators
    paper, eq. 22 and 25; `job_size` says why corrected.
    """
    prepared = prepare(result.tree)
    contest = prepared.contest
    resolution = int(result.settings["resolution"] if resolution is None else resolution)
    group = sweep.sibling_sum(contest, result.usage[prepared.entry])[np.maximum(contest.parent, 0)]
    job = jobs_that_show(
        {**result.settings, "resolution": resolution}, prepared.target, result.actual[prepared.entry], group
    )
    job[0] = np.inf
    anywhere = _down(contest, job, np.minimum)
    job[0] = 0.0
    everywhere = _down(contest, job, np.maximum)
    return SmallestJobs(prepared.spread(job), prepared.spread(anywhere), prepared.spread(everywhere))


def jobs_that_show(settings: Settings, target: FloatArray, actual: FloatArray, group_usage: FloatArray) -> FloatArray:
    """The usage beyond which a job changes an entry's component, for entries one by one; infinite where none does.

    settings: of `aequus`. group_usage: of the entry's whole sibling group, ≥ 0; the result has its unit.
    """
    operator = operator_of(settings)
    component: IntArray = codecs.scalar(operator(target, actual), settings["resolution"])
    least = int(puts_zero_shares_last(settings))  # below which no component goes
    reach = highest_actual(operator, codecs.effective_priority(component, settings["resolution"]), target)
    step = np.maximum(reach - actual, 0.0)
    never = (component <= least) | (reach >= 1.0 - _EDGE) | ((target == 0) & (least > 0))
    with np.errstate(invalid="ignore"):
        job = np.where(never, np.inf, fraction_corrected(step, actual) * group_usage)
    return np.where(np.isnan(job), 0.0, job)  # a group without usage: the first job has everything


def _down(contest: FairshareTree, own: FloatArray, join: np.ufunc) -> FloatArray:
    """Each entry's own value joined with those of all above it."""
    path = own.copy()
    for level in contest.levels:
        here = slice(level.lo, level.hi)
        path[here] = join(path[contest.parent[here]], own[here])
    return path
