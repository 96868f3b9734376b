"""What an experiment would need, and limits above which it is refused before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from django.utils.translation import gettext as _

from apps.contrib.lab.comparison.replay import MOST_REPLAYED_JOBS as MOST_COMPARED
from apps.contrib.lab.comparison.replayed_settings import N_REPLAYS
from apps.contrib.lab.experiments.account_entries import AccountEntries
from apps.contrib.lab.experiments.inputs import Inputs
from apps.contrib.lab.experiments.records import Estimate
from apps.contrib.lab.experiments.replay_records import count_replayable, own_sources, sources_with_submit_times
from apps.contrib.lab.experiments.spec import ExperimentSpec
from apps.contrib.lab.experiments.variant_scenario import DEFAULT_REFRESH_S, scenario_of
from apps.contrib.lab.experiments.variant_trees import place_of
from apps.contrib.lab.simulation.scenario import Scenario, decision_steps, refuse_endless
from apps.core.errors import FieldProblem, Invalid
from apps.engine.errors import EngineError
from apps.usage import pgbinary

MOST_VARIANT_JOBS = 1_500_000  # of one variant
_MOST_COUNTED_JOBS = 2 * MOST_VARIANT_JOBS
MOST_SECONDS = 1_800.0  # of processor time, of all variants together
MOST_MEMORY_MB = 1_024.0
# Measured by `python -m bench --large lab`, on one core with machine code.
_SECONDS_PER_EVENT, _SECONDS_PER_STEP, _SECONDS_PER_JOB = 6e-7, 1.5e-9, 8e-6
# Of one of the replays by which variants are compared, measured the same way on the logs of four clusters.
_SECONDS_PER_HOUR, _SECONDS_PER_COMPARED_JOB = 8e-4, 1.5e-5
_MB_PER_JOB, _MB_PER_PLACE, _MB_BESIDES = 4.5e-4, 6e-5, 220.0

# Jobs that ended in these days, from hourly sums, and their sites.
_COUNT_ABOUT = """
SELECT COALESCE(sum(n), 0)::float8, count(*) FROM (
    SELECT sum(jobs) AS n FROM usage_bucket WHERE source_id = ANY(%s) AND account_id = ANY(%s::int8[])
        AND hour_at >= %s AND hour_at < %s
    GROUP BY source_id, site) AS of_sites
"""


@dataclass(frozen=True, slots=True)
class _Load:
    """What one variant has to do."""

    n_jobs: float
    n_refreshes: float
    n_steps: float
    n_entries: int

    @property
    def n_events(self) -> int:
        return int(np.ceil(2 * self.n_jobs + self.n_refreshes))

    @property
    def seconds(self) -> float:
        return (
            (2 * self.n_jobs + self.n_refreshes) * _SECONDS_PER_EVENT
            + self.n_steps * _SECONDS_PER_STEP
            + self.n_jobs * _SECONDS_PER_JOB
        )


def estimate_inputs(inputs: Inputs) -> Estimate:
    """The estimate of complete inputs. Raises Invalid for what is too large, or the simulator refuses."""
    scenarios = {}
    for index, variant in enumerate(inputs.variants):
        try:
            if variant is not None:
                scenarios[index] = scenario_of(inputs, index)
        except EngineError as error:
            raise _refusal(error, index) from None
    estimate = _estimate([_load_of(scenario) for scenario in scenarios.values()], len(inputs.sites))
    for index, scenario in scenarios.items():
        try:
            refuse_endless(scenario)
        except EngineError as error:
            raise _refusal(error, index) from None
    return estimate


def _load_of(scenario: Scenario) -> _Load:
    n_jobs = sum(stream.expected_jobs for stream in scenario.streams)
    n_refreshes = scenario.end_s / scenario.global_refresh_s if scenario.scope_is_global.any() else 0.0
    if scenario.priority_refresh_s > 0:
        n_refreshes += scenario.end_s / scenario.priority_refresh_s * len(scenario.sites)
    return _Load(n_jobs, n_refreshes, decision_steps(scenario, n_jobs), scenario.policy.tree.n_entries)


@dataclass(frozen=True, slots=True)
class OwnJobs:
    """Jobs of some days that have an entry in the policy, and the sites where they are replayed."""

    n_jobs: int
    n_sites: int


def own_jobs(from_at: datetime, to_at: datetime, mapping: AccountEntries) -> OwnJobs:
    """Exactly those that `replayed_jobs` chooses; about, where they are many more than can be simulated.

    Raises Invalid (`no_jobs`, `no_submit_times`) where none can be replayed, or nothing said about waits.
    """
    source_ids = [source.pk for source in own_sources()]
    with pgbinary.cursor() as cursor:
        counted = cursor.execute(_COUNT_ABOUT, [source_ids, pgbinary.int8_array(mapping.mapped_ids()), from_at, to_at])
        n_about, n_sites = counted.fetchone() or (0, 0)
    if n_about > _MOST_COUNTED_JOBS:
        return OwnJobs(int(n_about), n_sites)
    counts = count_replayable(from_at, to_at)
    mapped = mapping.of(counts.account_id) >= 0
    if not mapped.any():
        raise no_jobs()
    if not np.isin(counts.source_id[mapped], sources_with_submit_times(from_at, to_at)).any():
        raise no_submit_times()
    return OwnJobs(int(counts.n[mapped].sum()), len(np.unique(counts.site[mapped])))


def estimate_replay(
    spec: ExperimentSpec, from_at: datetime, to_at: datetime, mapping: AccountEntries, n_entries: int
) -> Estimate:
    """The jobs of the base exactly; those of a variant with more or fewer jobs on average.

    n_entries: of the tree. Raises Invalid for what is too large, and as `own_jobs`.
    """
    own = own_jobs(from_at, to_at, mapping)
    taking_part = min(n_entries, 2 * mapping.n_entries())
    seconds = (to_at - from_at).total_seconds()
    loads = []
    for index in range(spec.n_runs):
        setup = spec.setup(index)
        n_jobs = own.n_jobs * (setup.jobs_times or 1.0)
        n_refreshes = seconds / (setup.refresh_s or DEFAULT_REFRESH_S)
        n_steps = n_jobs * min(taking_part, 200) + n_refreshes * taking_part
        loads.append(_Load(n_jobs, n_refreshes, n_steps, taking_part))
    return _estimate(loads, own.n_sites, compared_s=spec.n_runs * _comparison_s(own.n_jobs, seconds / 3600.0))


def _comparison_s(n_jobs: float, hours: float) -> float:
    """Processor seconds of the repeated replays of one variant."""
    return N_REPLAYS * (hours * _SECONDS_PER_HOUR + min(n_jobs, MOST_COMPARED) * _SECONDS_PER_COMPARED_JOB)


def no_jobs() -> Invalid:
    message = _("No job of these days has an entry in the policy.")
    return Invalid(message, code="no_jobs", fields=[FieldProblem("workload.days", message)])


def no_submit_times() -> Invalid:
    message = _("No source reports when these jobs were submitted: nothing can be said about waits.")
    return Invalid(message, code="no_submit_times", fields=[FieldProblem("workload", message)])


def _estimate(loads: Sequence[_Load], n_sites: int, *, compared_s: float = 0.0) -> Estimate:
    n_entries, n_jobs = max(load.n_entries for load in loads), max(load.n_jobs for load in loads)
    estimate = Estimate(
        n_jobs=int(np.ceil(n_jobs)),
        n_events=max(load.n_events for load in loads),
        n_entries=n_entries,
        n_sites=n_sites,
        n_runs=len(loads),
        seconds=max(0.1, round(sum(load.seconds for load in loads) + compared_s, 1)),
        memory_mb=round(_MB_BESIDES + n_jobs * _MB_PER_JOB + n_entries * n_sites * _MB_PER_PLACE, 0),
    )
    refuse_too_large(estimate)
    return estimate


def _refusal(error: EngineError, index: int) -> Invalid:
    """What the simulator refuses, at its place in the experiment."""
    where = f"{place_of(index)}.{error.place}" if error.place else place_of(index)
    return Invalid(f"{where}: {error.message}.", code=error.code, fields=[FieldProblem(where, error.message)])


def refuse_too_large(estimate: Estimate) -> None:
    """Raise Invalid (`too_large`) with the limit, and what to do."""
    problems = []
    if estimate.n_jobs > MOST_VARIANT_JOBS:
        problems.append(
            _("About %(n)s jobs in each variant; at most %(most)s are simulated. Choose fewer days or a smaller load.")
            % {"n": f"{estimate.n_jobs:,}", "most": f"{MOST_VARIANT_JOBS:,}"}
        )
    if estimate.seconds > MOST_SECONDS:
        problems.append(
            _("About %(n)s seconds of processor time; at most %(most)s are allowed. Choose fewer days or variants.")
            % {"n": f"{estimate.seconds:,.0f}", "most": f"{MOST_SECONDS:,.0f}"}
        )
    if estimate.memory_mb > MOST_MEMORY_MB:
        problems.append(
            _("About %(n)s MB of memory; at most %(most)s are allowed. Choose fewer days or sites.")
            % {"n": f"{estimate.memory_mb:,.0f}", "most": f"{MOST_MEMORY_MB:,.0f}"}
        )
    if problems:
        raise Invalid(
            " ".join(problems), code="too_large", fields=[FieldProblem("workload", each) for each in problems]
        )
