"""Simulate a scenario: draw the jobs, run the event loop, and report the delivered usage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from apps.contrib.lab.simulation.columns import N_EVENTS, Jobs, Model, State, execution_for
from apps.contrib.lab.simulation.long_aging import LongAging, book_past
from apps.contrib.lab.simulation.scenario import Scenario, read_scenario
from apps.contrib.lab.simulation.sites import (
    Aging,
    Recompute,
    ages,
    empty_state,
    flat_nodes,
    flat_rule,
    is_long,
    nodes_of,
    plan_of,
    rule_of,
)
from apps.contrib.lab.simulation.streams import HOUR_S
from apps.contrib.lab.simulation.workload import Workload, draw
from apps.engine.algorithms.inputs import prepare
from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.cases import Policy
from apps.engine.parameters import Settings
from apps.engine.tree import FairshareTree

FIRST_SAMPLE_H, SAMPLE_STEP_H = 6.0, 0.5
Progress = Callable[[float], None]
_PROGRESS_STEPS = 50
# Jobs that arrive between two reports, with machine code and without: less than a second's work.
_MOST_UNREPORTED, _MOST_UNREPORTED_PLAIN = 10_000, 1_000


def delivered(
    at_s: FloatArray, queue: IntArray, start: FloatArray, run_s: FloatArray, cpus: FloatArray, n_queues: int
) -> FloatArray:
    """CPU seconds since the start by instant and queue, (times, queues), including running jobs; at_s ascending.

    At instant T: `T · (started − ended) − (Σ start times − Σ end times)` over events before T, weighted by processors.
    The other columns are those of started jobs.
    """
    end = start + run_s
    n = len(at_s)
    width = max(n_queues, 1)

    def up_to(instant: FloatArray, weight: FloatArray) -> FloatArray:
        bucket = np.searchsorted(at_s, instant, side="left") * width + queue
        return np.bincount(bucket, weight, minlength=(n + 1) * width).reshape(n + 1, width)[:n].cumsum(axis=0)

    running = up_to(start, cpus) - up_to(end, cpus)
    since = up_to(start, cpus * start) - up_to(end, cpus * end)
    core_seconds: FloatArray = np.maximum(0.0, at_s[:, np.newaxis] * running - since)[:, :n_queues]
    return core_seconds


def shares_of_parent(tree: FairshareTree, usage: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(percentage among siblings, total usage of the siblings), each (times, n), from own usage (times, n)."""
    total = usage.copy()
    share, group = np.zeros_like(usage), np.zeros_like(usage)
    for level in reversed(tree.levels):
        here = slice(level.lo, level.hi)
        sums = np.add.reduceat(total[:, here], level.starts, axis=1)
        total[:, level.parents] += sums
        group[:, here] = np.repeat(sums, level.counts, axis=1)
        share[:, here] = 100.0 * total[:, here] / np.where(group[:, here] > 0, group[:, here], 1.0)
    return share, group


def report(scenario: Scenario, entries: IntArray, jobs: Jobs, started_s: FloatArray) -> dict[str, Any]:
    """`reports` and `rms_points` of a result."""
    policy = scenario.policy
    n_half_hours = int(np.floor((scenario.end_s / HOUR_S - FIRST_SAMPLE_H) / SAMPLE_STEP_H + 1e-9)) + 1
    samples_h = FIRST_SAMPLE_H + SAMPLE_STEP_H * np.arange(max(0, n_half_hours))
    hours = np.concatenate([np.array(scenario.report_h, dtype=np.float64), samples_h])
    at_s, row = np.unique(hours * HOUR_S, return_inverse=True)
    ran = started_s >= 0
    queue = jobs.site_queue[ran] % len(entries) if len(entries) else jobs.site_queue[ran]
    cpus = jobs.cpus[ran].astype(np.float64)
    by_queue = delivered(at_s, queue, started_s[ran], jobs.run_s[ran], cpus, len(entries))
    usage = np.zeros((len(at_s), policy.tree.n_entries))
    usage[:, entries] = by_queue
    share, group = shares_of_parent(policy.tree, usage)
    n_reports = len(scenario.report_h)
    reports = [
        {"hour": hour, "share_of_parent": _shares_by_path(policy, share[i], group[i])}
        for hour, i in zip(scenario.report_h, row[:n_reports].tolist(), strict=True)
    ]
    sampled = row[n_reports:]
    rms = rms_points(policy, share[sampled], group[sampled])
    by_path = {policy.paths[entry] or "/": None if np.isnan(points) else points for entry, points in rms.items()}
    return {"reports": reports, "rms_points": by_path}


def _shares_by_path(policy: Policy, share: FloatArray, group: FloatArray) -> dict[str, float | None]:
    return {
        path: float(share[entry]) if group[entry] > 0 else None for entry, path in enumerate(policy.paths) if entry > 0
    }


def rms_points(
    policy: Policy, share: FloatArray, group: FloatArray, counts: BoolArray | None = None
) -> dict[int, float]:
    """Root mean square deviation of each group in points, by entry; NaN without usage, or if targets don't add up.

    share: (times, n) in percent. group: (times, n) usage of the siblings together. counts: the children that are
    compared, (n,); all by default. Children of an entry with *inherit* shares compete one level up, so neither group
    has targets that add up.
    """
    tree = policy.tree
    target = 100.0 * prepare(tree).spread(prepare(tree).target)
    has_targets = _has_targets(tree.inherits, tree.parent.astype(np.int64))
    points: dict[int, float] = {}
    for entry in np.flatnonzero(tree.child_count > 0).tolist():
        first = int(tree.first_child[entry])
        children = slice(first, first + int(tree.child_count[entry]))
        used = group[:, first] > 0
        gaps = share[used, children] - target[children]
        gaps = gaps if counts is None else gaps[:, counts[children]]
        is_defined = bool(has_targets[entry]) and gaps.size > 0
        points[entry] = float(np.sqrt(np.mean(gaps**2))) if is_defined else float("nan")
    return points


def _has_targets(inherits: BoolArray, parent: IntArray) -> BoolArray:
    """(n,) whether the children of an entry are exactly those that compete in its group."""
    has_targets = ~inherits
    has_targets[parent[inherits]] = False
    return has_targets


def simulate(
    scenario: object,
    *,
    seed: int | None = None,
    traces: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Simulate one scenario and return its result as JSON; deterministic for scenario and seed.

    seed: replaces the scenario's. traces: text of the logs that the scenario names. progress: called with the
    completed part, 0..1. Raises EngineError with the invalid field.
    """
    read = read_scenario(scenario, seed=seed, traces={} if traces is None else traces)
    workload = draw(read)
    ran = run_jobs(read, workload, progress)
    has_started = ran.started_s >= 0
    has_finished = has_started & (ran.started_s + workload.jobs.run_s <= read.end_s)
    return {
        "id": read.id,
        "seed": read.seed,
        "jobs": {
            "submitted": len(ran.started_s),
            "started": int(has_started.sum()),
            "finished": int(has_finished.sum()),
        },
        **report(read, workload.entries, workload.jobs, ran.started_s),
        "events": ran.events,
        **ran.more,
        **_traces(read, workload),
    }


class Ran(NamedTuple):
    """When each job started (negative for never), how many events the loop had, and further results."""

    started_s: FloatArray
    events: int
    more: dict[str, Any]


def run_jobs(scenario: Scenario, workload: Workload, progress: Progress | None = None) -> Ran:
    """Run drawn jobs through the sites; `started_s` is in the order of `workload.jobs`."""
    if scenario.sam:
        return _run_sam(scenario, workload, progress)
    return _run(scenario, workload, scenario.algorithm or {}, progress)


class _Step:
    """An action at time 0 and at regular intervals before the end."""

    def __init__(self, every_s: float, action: Callable[[float], None]) -> None:
        self.every_s, self.action, self.n_done = every_s, action, 0

    @property
    def next_s(self) -> float:
        return self.n_done * self.every_s

    def act(self, now_s: float) -> None:
        if now_s >= self.next_s:
            self.n_done += 1
            self.action(now_s)


class _Resizes:
    """Gives sites other numbers of processors at the scenario's instants; running jobs continue."""

    def __init__(self, scenario: Scenario, state: State) -> None:
        self.resizes, self.end_s, self.free = scenario.resizes, scenario.end_s, state.machines.free
        self.cpus = [site.cpus for site in scenario.sites]
        self.n_done = 0

    @property
    def next_s(self) -> float:
        return self.resizes[self.n_done].at_s if self.n_done < len(self.resizes) else self.end_s

    def act(self, now_s: float) -> None:
        while self.n_done < len(self.resizes) and now_s >= self.resizes[self.n_done].at_s:
            resize = self.resizes[self.n_done]
            self.free[resize.site] += resize.cpus - self.cpus[resize.site]
            self.cpus[resize.site] = resize.cpus
            self.n_done += 1


def _run(scenario: Scenario, workload: Workload, algorithm: Settings, progress: Progress | None) -> Ran:
    """Run the loop in one go, or from step to step if weights or priorities are recomputed outside it."""
    from apps.contrib.lab.simulation import loop  # with numba, which no command waits for that simulates nothing

    is_flat = scenario.priority_refresh_s > 0
    books_queues = is_flat or ages(scenario.window)
    n_queues = len(workload.entries)
    if is_flat:
        nodes, paths = flat_nodes(n_queues)
        rule = flat_rule()
    else:
        nodes, paths = nodes_of(scenario, workload.entries, books_queues=books_queues)
        rule = rule_of(algorithm, scenario.noise.resolution)
    plan = plan_of(scenario, n_queues, nodes, paths, is_flat=is_flat, books_queues=books_queues)
    execution = execution_for(len(workload.jobs.site_queue))
    state = execution.columns(empty_state(scenario, workload, plan))
    view = (scenario, workload.entries, workload.jobs, paths, plan, state)
    steps: list[_Step] = []
    if ages(scenario.window):
        aging = LongAging(*view) if is_long(scenario, n_queues) else Aging(*view)
        steps.append(_Step(scenario.aging_step_s, aging.step))
    elif scenario.past is not None:
        book_past(*view)
    if is_flat:
        recompute = Recompute(*view)
        steps.append(_Step(scenario.global_refresh_s, recompute.refresh))
        steps.append(_Step(scenario.priority_refresh_s, recompute.step))
    resizes = _Resizes(scenario, state)
    advance: Callable[..., None] = execution.loop(loop.advance)
    arrivals, departures = execution.columns(workload.arrivals), execution.columns(workload.departures)
    model = execution.columns(Model(workload.jobs, nodes, paths, rule, plan))

    def run_until(until_s: float) -> None:
        advance(until_s, arrivals, departures, model, state)

    _step_through(
        scenario.end_s, [resizes, *steps], run_until, _reports(scenario, workload, execution.is_compiled, progress)
    )
    return _ran(state)


def _run_sam(scenario: Scenario, workload: Workload, progress: Progress | None) -> Ran:
    from apps.contrib.lab.simulation.sam_queue import booked_shares, run_sam  # as in _run

    run_until, state, sam = run_sam(scenario, workload)
    is_compiled = execution_for(len(workload.jobs.site_queue)).is_compiled
    _step_through(scenario.end_s, [], run_until, _reports(scenario, workload, is_compiled, progress))
    ran = _ran(state)
    return ran._replace(more={"booked_share": booked_shares(scenario, workload.entries, sam)})


def _ran(state: State) -> Ran:
    return Ran(np.array(state.machines.started_s, dtype=np.float64), int(state.counters[N_EVENTS]), {})


class _Reports:
    """Calls `progress` at these instants, ascending."""

    def __init__(self, at_s: list[float], end_s: float, progress: Progress) -> None:
        self.at_s, self.end_s, self.progress, self.n_done = at_s, end_s, progress, 0

    @property
    def next_s(self) -> float:
        return self.at_s[self.n_done] if self.n_done < len(self.at_s) else self.end_s

    def act(self, now_s: float) -> None:
        if self.n_done < len(self.at_s) and now_s >= self.at_s[self.n_done]:
            self.n_done += 1
            self.progress(now_s / self.end_s)


def _reports(scenario: Scenario, workload: Workload, is_compiled: bool, progress: Progress | None) -> _Reports | None:
    """Reports at regular intervals, and each time a number of jobs has arrived."""
    if progress is None:
        return None
    regular = np.arange(_PROGRESS_STEPS) * (scenario.end_s / _PROGRESS_STEPS)
    by_jobs = workload.arrivals.at_s[:: _MOST_UNREPORTED if is_compiled else _MOST_UNREPORTED_PLAIN]
    at_s = np.unique(np.concatenate([regular, by_jobs[by_jobs < scenario.end_s]]))
    return _Reports(at_s.tolist(), scenario.end_s, progress)


def _step_through(
    end_s: float, steps: Sequence[_Step | _Resizes], run_until: Callable[[float], None], reports: _Reports | None
) -> None:
    """Run to the end, stopping at every step; simultaneous steps run in their order. Stops don't change the result."""
    stops: list[_Step | _Resizes | _Reports] = [*steps, *([] if reports is None else [reports])]
    now_s = 0.0
    while now_s < end_s:
        for stop in stops:
            stop.act(now_s)
        now_s = min([end_s, *(stop.next_s for stop in stops)])
        run_until(now_s)
    if reports is not None:
        reports.progress(1.0)


def _traces(scenario: Scenario, workload: Workload) -> dict[str, Any]:
    """Numbers of simulated and skipped jobs of each log, by location of its stream in the scenario."""
    counts = {
        stream.place: {
            "jobs": len(stream.trace) - too_wide,
            "unmapped": stream.trace.unmapped,
            "without_run_time": stream.trace.idle,
            "too_wide": too_wide,
        }
        for stream, too_wide in zip(scenario.streams, workload.too_wide, strict=True)
        if stream.trace is not None
    }
    return {"traces": counts} if counts else {}
