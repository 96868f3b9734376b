"""Operators and resolutions on computed trees: the operators paper's criteria, measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from apps.contrib.lab.advisor.records import OperatorFacts, ResolutionFacts
from apps.contrib.lab.comparison.replayed_settings import orders_like
from apps.engine.algorithms.aequus import measure, operator_of
from apps.engine.algorithms.base import PriorityResult
from apps.engine.analysis.density import highest_actual
from apps.engine.analysis.job_size import smallest_jobs
from apps.engine.analysis.tree_resolution import Collisions, bits_now, collisions_at, safe_bits
from apps.engine.codecs import effective_priority
from apps.engine.operators import Operator
from apps.engine.parameters import Settings


def with_settings(result: PriorityResult, settings: Settings) -> PriorityResult:
    """A result of `aequus` under another operator or resolution: same targets and usage, other priorities.

    Ranks and factors stay those of `result`: nothing here reads them.
    """
    priority, scalar = measure(settings, result.target, result.actual)
    priority[~result.competes], scalar[~result.competes] = 0.0, -1
    return replace(result, settings=settings, priority=priority, scalar=scalar)


@dataclass(frozen=True)
class Days:
    """Rounding on several days: mean percentage of misplaced leaves, and of days with one."""

    misplaced: float
    flip_days: float

    @classmethod
    def of(cls, days: Sequence[Collisions]) -> Days:
        ranked = [each for each in days if each.n_leaves]
        if not ranked:
            return cls(0.0, 0.0)
        parts = [100.0 * each.n_misplaced / each.n_leaves for each in ranked]
        flips = [100.0 * (each.n_misplaced > 0) for each in ranked]
        return cls(float(np.mean(parts)), float(np.mean(flips)))


def operator_facts(
    present: PriorityResult, days: Sequence[PriorityResult], settings: Settings, *, job_usage: float | None
) -> OperatorFacts:
    """Measure the operator of `settings`. present, days: results of `aequus`. job_usage: of the typical job."""
    operator = operator_of(settings)
    now = with_settings(present, settings)
    counted = collisions_at(now, [settings["resolution"]])[0]
    past = Days.of([collisions_at(with_settings(day, settings), [settings["resolution"]])[0] for day in days])
    bits = safe_bits(now)
    jobs = smallest_jobs(now).anywhere[now.tree.is_ranked]
    properties = operator.properties
    return OperatorFacts(
        name=operator.name,
        k=settings.get("k"),
        has_boundaries=properties.boundaries,
        is_proportional=properties.proportional_redistribution,
        is_isolated=properties.isolation,
        orders_like=orders_like(operator.name, settings.get("k")),
        density=_density(now, operator),
        n_misplaced=counted.n_misplaced,
        n_lost=counted.n_lost,
        misplaced=past.misplaced,
        flip_days=past.flip_days,
        distinct_bits=bits.distinct,
        same_ranks_bits=bits.same_ranks,
        job_bits=None if job_usage is None else bits_now(now, operator, job_usage).bits or None,
        median_job_h=_median_hours(jobs),
        visible=_visible(now, job_usage),
    )


def resolution_facts(
    present: PriorityResult,
    days: Sequence[PriorityResult],
    settings: Settings,
    resolutions: Sequence[int],
    *,
    job_usage: float | None,
) -> tuple[ResolutionFacts, ...]:
    """Measure resolutions with the operator of `settings`, in ascending order."""
    ordered = sorted(set(resolutions))
    now = collisions_at(with_settings(present, settings), ordered)
    past = [collisions_at(with_settings(day, settings), ordered) for day in days]
    facts = []
    for at, resolution in enumerate(ordered):
        of_days = Days.of([day[at] for day in past])
        visible = _visible(with_settings(present, {**settings, "resolution": resolution}), job_usage)
        facts.append(
            ResolutionFacts(
                resolution, now[at].n_misplaced, now[at].n_lost, of_days.misplaced, of_days.flip_days, visible
            )
        )
    return tuple(facts)


def _visible(result: PriorityResult, job_usage: float | None) -> float:
    """Percentage of the ranked leaves whose vector a job of this usage changes."""
    jobs = smallest_jobs(result).anywhere[result.tree.is_ranked]
    return 0.0 if job_usage is None or not len(jobs) else float(100.0 * (jobs < job_usage).mean())


def _median_hours(jobs: np.ndarray) -> float | None:
    """Upper median: None only if at least half of the leaves show no job."""
    middle = float(np.sort(jobs)[len(jobs) // 2]) if len(jobs) else inf
    return middle / 3600.0 if np.isfinite(middle) else None


def _density(result: PriorityResult, operator: Operator) -> float | None:
    """Median width of the components that entries with shares are on, in points of actual. Source: eq. 18–19."""
    at = np.flatnonzero(result.competes & (result.target > 0))
    if not len(at):
        return None
    resolution, target = result.settings["resolution"], result.target[at]
    component = np.maximum(result.scalar[at], 0)
    most = np.where(component == 0, 1.0, highest_actual(operator, effective_priority(component, resolution), target))
    above = effective_priority(np.minimum(component + 1, resolution - 1), resolution)
    least = np.where(component == resolution - 1, 0.0, highest_actual(operator, above, target))
    return float(100.0 * np.median(most - least))
