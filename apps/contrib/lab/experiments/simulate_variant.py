"""Simulate one variant from the stored inputs: pure, and the same bytes each time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from apps.contrib.lab.experiments.inputs import Inputs
from apps.contrib.lab.experiments.outcome import Outcome, RanJobs, outcome_of
from apps.contrib.lab.experiments.variant_scenario import scenario_of
from apps.contrib.lab.simulation.run import run_jobs
from apps.contrib.lab.simulation.scenario import refuse_endless
from apps.contrib.lab.simulation.workload import draw


def simulate_variant(inputs: Inputs, index: int, progress: Callable[[float], None]) -> Outcome:
    """progress: is called with the completed part, 0..1, at least once a second; what it raises ends the simulation.

    Raises EngineError where the simulator refuses the scenario.
    """
    scenario = scenario_of(inputs, index)
    refuse_endless(scenario)
    workload = draw(scenario)
    jobs = workload.jobs
    ran = run_jobs(scenario, workload, progress)
    has_started = ran.started_s >= 0
    start_s = np.where(has_started, ran.started_s, np.nan)
    at_s = np.empty(len(start_s))
    at_s[workload.arrivals.job] = workload.arrivals.at_s
    site = jobs.site_queue // max(len(workload.entries), 1)
    entry = workload.entries[jobs.site_queue % max(len(workload.entries), 1)] if len(site) else jobs.site_queue
    cpus = jobs.cpus.astype(np.float64)
    run_s = np.minimum(jobs.run_s, scenario.end_s - ran.started_s)
    busy_s = np.bincount(site[has_started], (cpus * run_s)[has_started], minlength=len(scenario.sites))
    capacity = np.array([each.cpus for each in scenario.sites], dtype=np.float64)
    has_finished = has_started & (ran.started_s + jobs.run_s <= scenario.end_s)
    numbers = {
        "n_submitted": len(start_s),
        "n_started": int(has_started.sum()),
        "n_finished": int(has_finished.sum()),
        "n_events": ran.events,
        "busy": busy_s / (capacity * scenario.end_s),
        "busy_total": float(busy_s.sum() / (capacity.sum() * scenario.end_s)),
    }
    ran_jobs = RanJobs(
        entry=entry,
        at_s=at_s,
        before_s=np.zeros(len(at_s)),
        start_s=start_s,
        run_s=jobs.run_s,
        cpus=cpus,
        rate=cpus,
        counts=np.ones(len(at_s), dtype=np.bool_),
    )
    return outcome_of(inputs, inputs.variants[index], ran_jobs, numbers)
