"""The scenario of one variant, for the simulator of `apps.contrib.lab.simulation`: pure, from the stored inputs."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from apps.contrib.lab.comparison.replay import DAY_S
from apps.contrib.lab.experiments.inputs import WAS_RUNNING, GivenJobs, Inputs, VariantInputs
from apps.contrib.lab.experiments.spec import AllUsers, Changes, Noise, Stream, SyntheticWorkload
from apps.contrib.lab.simulation import scenario as simulated
from apps.contrib.lab.simulation.log_jobs import Trace
from apps.contrib.lab.simulation.scenario import (
    AGING_STEP_S,
    APPROACHES,
    DEFAULT_PRIORITY_REFRESH_S,
    PastUsage,
    Resize,
    Scenario,
)
from apps.contrib.lab.simulation.streams import HOUR_S, Span
from apps.contrib.lab.simulation.streams import Site as SimulatedSite
from apps.contrib.lab.simulation.streams import Stream as SimulatedStream
from apps.engine.algorithms import read_algorithm
from apps.engine.algorithms.inputs import prepare
from apps.priorities.metering import window_of

DEFAULT_REFRESH_S = 60.0
# Of longer simulations, weights are renewed each hour: usage is in hours.
LONG_H, LONG_AGING_STEP_S = 240.0, 3_600.0
LONG_PRIORITY_REFRESH_S = 300.0
MOST_BACKFILL_JOBS = 100  # pending jobs that one backfill looks at, in order of priority: Slurm's bf_max_job_test
_REPEATS = 2**31  # in place of a stream's number in the seed of random numbers


def scenario_of(inputs: Inputs, index: int) -> Scenario:
    """Raises BadCase, BadParameter or BadTree where the simulator refuses it."""
    variant, setup = inputs.variant(index), inputs.spec.setup(index)
    tree, settings = variant.tree, variant.settings
    queue = settings.get("queue")
    algorithm = None if queue else read_algorithm(settings["algorithm"])
    noise = setup.noise or Noise()
    past = variant.past
    return Scenario(
        id=None,
        seed=inputs.spec.seed,
        end_s=inputs.hours * HOUR_S,
        sites=tuple(SimulatedSite(site.name, site.cpus) for site in inputs.sites),
        policy=tree.policy,
        scope_is_global=tree.is_global.astype(np.bool_),
        algorithm=algorithm,
        local_approach=APPROACHES.index(settings["approach"]["local"]),
        global_approach=APPROACHES.index(settings["approach"]["global"]),
        global_refresh_s=DEFAULT_REFRESH_S if setup.refresh_s is None else setup.refresh_s,
        window=window_of(settings["window"]),
        noise=simulated.Noise(noise.usage_delay_s, noise.loss, noise.resolution),
        priority_refresh_s=_priority_refresh_s(inputs, setup, algorithm),
        backfill=_backfills(inputs, setup),
        sam=simulated.Sam(**queue) if queue else None,
        streams=tuple(_streams(inputs, variant, setup)),
        report_h=(),
        past=PastUsage(past.entry, past.site, past.hour, past.amount) if len(past.entry) else None,
        origin_s=inputs.origin_s,
        most_tried=MOST_BACKFILL_JOBS,
        aging_step_s=AGING_STEP_S if inputs.hours <= LONG_H else LONG_AGING_STEP_S,
        resizes=_resizes(inputs),
    )


def _resizes(inputs: Inputs) -> tuple[Resize, ...]:
    """Of a replay: each day the processors that it delivered."""
    by_day = inputs.cpus_by_day
    return tuple(
        Resize(DAY_S * day, site, int(by_day[site, day]))
        for day in range(by_day.shape[1])
        for site in range(len(by_day))
        if day == 0 or by_day[site, day] != by_day[site, day - 1]
    )


def _priority_refresh_s(inputs: Inputs, setup: Changes, algorithm: dict[str, Any] | None) -> float:
    if algorithm is None:
        return 0.0
    is_incremental = simulated.is_incremental(algorithm)
    if setup.priority_refresh_s is None:
        usual_s = DEFAULT_PRIORITY_REFRESH_S if inputs.hours <= LONG_H else LONG_PRIORITY_REFRESH_S
        return 0.0 if is_incremental else usual_s
    return setup.priority_refresh_s if is_incremental else max(1.0, setup.priority_refresh_s)


def _backfills(inputs: Inputs, setup: Changes) -> bool:
    """As it is set; by default, where jobs need several processors."""
    if setup.backfill is not None:
        return setup.backfill
    workload = inputs.spec.workload
    if inputs.jobs is not None:
        return bool((inputs.jobs.cpus > 1).any())
    assert isinstance(workload, SyntheticWorkload)  # noqa: S101 - the others have jobs
    cpus = [stream.cpus for stream in workload.streams]
    return max([*cpus, workload.all_users.cpus if workload.all_users else 1]) > 1


def _streams(inputs: Inputs, variant: VariantInputs, setup: Changes) -> list[SimulatedStream]:
    if inputs.jobs is not None:
        return [_of_given_jobs(inputs, inputs.jobs, variant, setup)]
    workload = inputs.spec.workload
    assert isinstance(workload, SyntheticWorkload)  # noqa: S101 - the others have jobs
    lines = streams_of(workload, inputs.variant(0))
    times = jobs_times(variant, setup)
    spread: list[SimulatedStream] = []
    at_home: list[SimulatedStream] = []  # last, so that the random numbers of the others don't depend on them
    for number, (line, entry) in enumerate(zip(lines, variant.entry_of_who.tolist(), strict=True)):
        # A stream whose entry is not in this tree stays, without jobs: each has random numbers of its own.
        both = _drawn(inputs, line, max(entry, 0), number, setup, float(times[entry]) if entry >= 0 else 0.0)
        spread.append(both[0])
        at_home += both[1:]
    return [*spread, *at_home]


def _of_given_jobs(inputs: Inputs, jobs: GivenJobs, variant: VariantInputs, setup: Changes) -> SimulatedStream:
    """All jobs that have an entry in this tree, as a log."""
    rows = given_rows(inputs, variant, setup)
    rate = variant.rate if len(variant.rate) else jobs.rate
    site = jobs.site[rows]
    return SimulatedStream(
        place="workload",
        entry=-1,
        interval_s=inf,
        is_random=False,
        run_s=Span(HOUR_S, HOUR_S),
        requested_factor=Span(1.0, 1.0),
        cpus=1,
        sites=tuple(range(len(inputs.sites))),
        from_s=0.0,
        until_s=inputs.hours * HOUR_S,
        priority=None,
        trace=Trace(
            name="",
            at_s=jobs.at_s[rows],
            run_s=jobs.run_s[rows],
            requested_s=jobs.requested_s[rows],
            cpus=jobs.cpus[rows],
            entry=variant.entry_of_who[jobs.who[rows]],
            site=site if (site >= 0).any() else None,
            rate=rate[rows],
        ),
    )


def given_rows(inputs: Inputs, variant: VariantInputs, setup: Changes) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The given jobs that a variant has, ascending; a job is there several times, or not, where its entry has more or
    fewer jobs. Jobs that ran before the start stay as they are.
    """
    jobs = inputs.jobs
    if jobs is None:
        raise ValueError("The jobs of this experiment are drawn.")
    entry = variant.entry_of_who[jobs.who]
    times = np.where(entry >= 0, jobs_times(variant, setup)[entry] * (setup.jobs_times or 1.0), 0.0)
    times = np.where((entry >= 0) & (jobs.marks & WAS_RUNNING != 0), 1.0, times)
    whole = np.floor(times)
    part = times - whole
    if part.any():
        random = np.random.default_rng(np.random.SeedSequence(inputs.spec.seed, spawn_key=(_REPEATS,)))
        whole += random.random(len(part)) < part
    return np.repeat(np.arange(len(entry)), whole.astype(np.int64))


def streams_of(workload: SyntheticWorkload, base: VariantInputs) -> list[Stream]:
    """The streams as given, or one for each chosen leaf, by its share in the base: all variants have equal demand."""
    if workload.all_users is None:
        return list(workload.streams)
    return [_of_user(workload.all_users, part) for part in _parts_of_leaves(base)]


def _of_user(users: AllUsers, part: float) -> Stream:
    return Stream(
        "",
        load=users.load * part,
        run_h=users.run_h,
        requested_factor=users.requested_factor,
        cpus=users.cpus,
    )


def _parts_of_leaves(variant: VariantInputs) -> list[float]:
    """The share of the whole of the leaf of each stream, in the order of `entry_of_who`; together 1."""
    tree = variant.tree.engine_tree
    prepared = prepare(tree)
    whole = np.where(variant.entry_of_who >= 0, prepared.spread(prepared.target_global)[variant.entry_of_who], 0.0)
    total = float(whole.sum())
    return (whole / total if total > 0 else whole).tolist()  # type: ignore[no-any-return]


def _drawn(
    inputs: Inputs, line: Stream, entry: int, number: int, setup: Changes, times: float
) -> list[SimulatedStream]:
    """The stream, and where the load is imbalanced a second one for the part that is sent to one site alone."""
    names = [site.name for site in inputs.sites]
    chosen = tuple(names.index(name) for name in line.sites) or tuple(range(len(names)))
    whole = SimulatedStream(
        place=f"workload.streams[{number}]",
        entry=entry,
        interval_s=_interval_s(inputs, line, chosen),
        is_random=line.every_s is None,
        run_s=Span(*(hours * HOUR_S for hours in line.run_h)),
        requested_factor=Span(*line.requested_factor),
        cpus=line.cpus,
        sites=chosen,
        from_s=min(line.from_h, inputs.hours) * HOUR_S,
        until_s=min(inf if line.until_h is None else line.until_h, inputs.hours) * HOUR_S,
        priority=line.priority if "queue" in inputs.variant(0).settings else None,
    )
    times *= setup.jobs_times or 1.0
    whole = replace(whole, interval_s=whole.interval_s / times if times > 0 else inf)
    imbalance = setup.imbalance or 0.0
    if imbalance == 0.0 or len(chosen) == 1:
        return [whole]
    home = chosen[number % len(chosen)]
    spread = replace(whole, interval_s=whole.interval_s / (1.0 - imbalance) if imbalance < 1.0 else inf)
    return [spread, replace(whole, interval_s=whole.interval_s / imbalance, sites=(home,))]


def _interval_s(inputs: Inputs, line: Stream, sites: tuple[int, ...]) -> float:
    if line.load is None:
        return float(line.every_s or line.poisson_s or inf)
    capacity = sum(inputs.sites[number].cpus for number in sites)
    mean_s = HOUR_S * (line.run_h[0] + line.run_h[1]) / 2
    jobs_per_s = line.load * capacity / (mean_s * line.cpus)
    return 1.0 / jobs_per_s if jobs_per_s > 0 else inf


def jobs_times(variant: VariantInputs, setup: Changes) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(n,) the factor of the jobs of each entry: those of its own change and of all above it, multiplied."""
    tree = variant.tree
    times = np.ones(len(tree))
    place_of = {uid.tobytes().hex(): i for i, uid in enumerate(tree.uid)}
    for change in setup.entries:
        i = place_of.get(change.entry.replace("-", ""))
        if i is not None and change.jobs_times != 1.0:
            times[i] *= change.jobs_times
    for level in tree.engine_tree.levels:
        here = slice(level.lo, level.hi)
        times[here] *= times[tree.parent[here]]
    return times
