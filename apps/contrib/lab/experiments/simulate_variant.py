"""Simulate one variant from the stored inputs: pure, and the same bytes each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from apps.contrib.lab.comparison.replay import DAY_S
from apps.contrib.lab.experiments.inputs import F8, I8, NO_SUBMIT_TIME, WAS_RUNNING, Inputs
from apps.contrib.lab.experiments.outcome import Outcome, RanJobs, outcome_of
from apps.contrib.lab.experiments.spec import Changes
from apps.contrib.lab.experiments.variant_scenario import given_rows, scenario_of
from apps.contrib.lab.simulation.run import run_jobs
from apps.contrib.lab.simulation.scenario import refuse_endless
from apps.contrib.lab.simulation.streams import HOUR_S
from apps.contrib.lab.simulation.workload import Workload, draw


def simulate_variant(inputs: Inputs, index: int, progress: Callable[[float], None]) -> Outcome:
    """progress: is called with the completed part, 0..1, at least once a second; what it raises ends the simulation.

    Raises EngineError where the simulator refuses the scenario.
    """
    scenario = scenario_of(inputs, index)
    refuse_endless(scenario)
    workload = draw(scenario)
    ran = run_jobs(scenario, workload, progress)
    variant, jobs = inputs.variant(index), _ran_jobs(inputs, index, workload, ran.started_s)
    return outcome_of(inputs, variant, jobs, numbers_of(inputs, jobs, _sites(workload), ran.events))


def _sites(workload: Workload) -> I8:
    sites: I8 = workload.jobs.site_queue // max(len(workload.entries), 1)
    return sites


def _ran_jobs(inputs: Inputs, index: int, workload: Workload, started_s: F8) -> RanJobs:
    jobs, n_queues = workload.jobs, max(len(workload.entries), 1)
    at_s = np.empty(len(started_s))
    at_s[workload.arrivals.job] = workload.arrivals.at_s
    cpus = jobs.cpus.astype(np.float64)
    before_s, rate, counts = np.zeros(len(at_s)), cpus, np.ones(len(at_s), dtype=np.bool_)
    if inputs.jobs is not None:
        stored, variant = inputs.jobs, inputs.variant(index)
        row = given_rows(inputs, variant, inputs.spec.setup(index))[workload.row]
        before_s, rate = stored.before_s[row], (variant.rate if len(variant.rate) else stored.rate)[row]
        counts = stored.marks[row] & (WAS_RUNNING | NO_SUBMIT_TIME) == 0
    return RanJobs(
        entry=workload.entries[jobs.site_queue % n_queues] if len(at_s) else jobs.site_queue,
        at_s=at_s,
        before_s=before_s,
        start_s=np.where(started_s >= 0, started_s, np.nan),
        run_s=jobs.run_s,
        cpus=cpus,
        rate=rate,
        counts=counts,
    )


def history_of(inputs: Inputs) -> Outcome | None:
    """What the jobs of a replay did in fact, as an outcome of the base; None where jobs didn't run."""
    stored, variant = inputs.jobs, inputs.variant(0)
    if stored is None or not np.isfinite(stored.waited_s).any():
        return None
    rows = given_rows(inputs, variant, Changes())
    runs = stored.marks[rows] & WAS_RUNNING != 0
    start_s = np.where(runs, 0.0, stored.at_s[rows] - stored.before_s[rows] + stored.waited_s[rows])
    jobs = RanJobs(
        entry=variant.entry_of_who[stored.who[rows]],
        at_s=stored.at_s[rows],
        before_s=stored.before_s[rows],
        start_s=start_s,
        run_s=stored.run_s[rows],
        cpus=stored.cpus[rows].astype(np.float64),
        rate=stored.rate[rows],
        counts=stored.marks[rows] & (WAS_RUNNING | NO_SUBMIT_TIME) == 0,
    )
    return outcome_of(inputs, variant, jobs, numbers_of(inputs, jobs, stored.site[rows], 0))


def numbers_of(inputs: Inputs, jobs: RanJobs, site: I8, n_events: int) -> dict[str, Any]:
    """Totals of an outcome. site: of each job."""
    end_s = inputs.hours * HOUR_S
    has_started = np.isfinite(jobs.start_s)
    ran_s = np.minimum(jobs.run_s, end_s - jobs.start_s)
    busy_s = np.bincount(site[has_started], (jobs.cpus * ran_s)[has_started], minlength=len(inputs.sites))
    capacity_s = _capacity_s(inputs)
    return {
        "n_submitted": len(jobs.start_s),
        "n_started": int(has_started.sum()),
        "n_finished": int((has_started & (jobs.start_s + jobs.run_s <= end_s)).sum()),
        "n_events": n_events,
        "busy": np.divide(busy_s, capacity_s, out=np.zeros(len(busy_s)), where=capacity_s > 0),
        "busy_total": float(busy_s.sum() / capacity_s.sum()),
    }


def _capacity_s(inputs: Inputs) -> F8:
    """Processor seconds of each site, over all days."""
    end_s = inputs.hours * HOUR_S
    if not inputs.cpus_by_day.size:
        return np.array([each.cpus * end_s for each in inputs.sites], dtype=np.float64)
    n_days = inputs.cpus_by_day.shape[1]
    begins_s = DAY_S * np.arange(n_days)
    lengths_s = np.minimum(np.append(begins_s[1:], max(end_s, begins_s[-1])), end_s) - np.minimum(begins_s, end_s)
    capacity_s: F8 = inputs.cpus_by_day @ lengths_s
    return capacity_s
