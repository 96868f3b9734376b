"""What an experiment would need, and limits above which it is refused before it starts."""

from __future__ import annotations

import numpy as np
from django.utils.translation import gettext as _

from apps.contrib.lab.experiments.inputs import Inputs
from apps.contrib.lab.experiments.records import Estimate
from apps.contrib.lab.experiments.variant_scenario import scenario_of
from apps.contrib.lab.experiments.variant_trees import place_of
from apps.contrib.lab.simulation.scenario import decision_steps, refuse_endless
from apps.core.errors import FieldProblem, Invalid
from apps.engine.errors import EngineError

MOST_JOBS = 2_000_000  # of one variant
MOST_SECONDS = 1_800.0  # of processor time, of all variants together
MOST_MEMORY_MB = 1_024.0
# Measured by `python -m bench --large lab`, on one core with machine code.
_SECONDS_PER_EVENT, _SECONDS_PER_STEP, _SECONDS_PER_JOB = 6e-7, 1.5e-9, 4e-6
_MB_PER_JOB, _MB_PER_PLACE, _MB_BESIDES = 3.5e-4, 6e-5, 220.0


def estimate_inputs(inputs: Inputs, n_jobs: int | None = None) -> Estimate:
    """The estimate of complete inputs. Raises Invalid for what the simulator refuses, naming the variant.

    n_jobs: of one variant, where the inputs don't have the jobs yet.
    """
    most_jobs, n_events, seconds, n_entries = 0, 0, 0.0, 0
    scenarios = []
    for index, variant in enumerate(inputs.variants):
        try:
            scenario = scenario_of(inputs, index)
        except EngineError as error:
            raise _refusal(error, index) from None
        jobs = sum(stream.expected_jobs for stream in scenario.streams) if n_jobs is None else n_jobs
        refreshes = scenario.end_s / scenario.global_refresh_s if scenario.scope_is_global.any() else 0.0
        if scenario.priority_refresh_s > 0:
            refreshes += scenario.end_s / scenario.priority_refresh_s * len(scenario.sites)
        scenarios.append(scenario)
        steps = decision_steps(scenario, jobs)
        most_jobs = max(most_jobs, int(np.ceil(jobs)))
        n_events = max(n_events, int(np.ceil(2 * jobs + refreshes)))
        n_entries = max(n_entries, len(variant.tree))
        seconds += (2 * jobs + refreshes) * _SECONDS_PER_EVENT + steps * _SECONDS_PER_STEP + jobs * _SECONDS_PER_JOB
    places = n_entries * len(inputs.sites)
    estimate = Estimate(
        n_jobs=most_jobs,
        n_events=n_events,
        n_entries=n_entries,
        n_sites=len(inputs.sites),
        n_runs=len(inputs.variants),
        seconds=max(0.1, round(seconds, 1)),
        memory_mb=round(_MB_BESIDES + most_jobs * _MB_PER_JOB + places * _MB_PER_PLACE, 0),
    )
    refuse_too_large(estimate)
    for index, scenario in enumerate(scenarios):
        try:
            refuse_endless(scenario)
        except EngineError as error:
            raise _refusal(error, index) from None
    return estimate


def _refusal(error: EngineError, index: int) -> Invalid:
    """What the simulator refuses, at its place in the experiment."""
    where = f"{place_of(index)}.{error.place}" if error.place else place_of(index)
    return Invalid(f"{where}: {error.message}.", code=error.code, fields=[FieldProblem(where, error.message)])


def refuse_too_large(estimate: Estimate) -> None:
    """Raise Invalid (`too_large`) with the limit, and what to do."""
    problems = []
    if estimate.n_jobs > MOST_JOBS:
        problems.append(
            _("About %(n)s jobs in each variant; at most %(most)s are simulated. Choose fewer days or a smaller load.")
            % {"n": f"{estimate.n_jobs:,}", "most": f"{MOST_JOBS:,}"}
        )
    if estimate.seconds > MOST_SECONDS:
        problems.append(
            _("About %(n)s seconds of processor time; at most %(most)s are given. Choose fewer days or variants.")
            % {"n": f"{estimate.seconds:,.0f}", "most": f"{MOST_SECONDS:,.0f}"}
        )
    if estimate.memory_mb > MOST_MEMORY_MB:
        problems.append(
            _("About %(n)s MB of memory; at most %(most)s are given. Choose fewer days or sites.")
            % {"n": f"{estimate.memory_mb:,.0f}", "most": f"{MOST_MEMORY_MB:,.0f}"}
        )
    if problems:
        raise Invalid(
            " ".join(problems), code="too_large", fields=[FieldProblem("workload", each) for each in problems]
        )
