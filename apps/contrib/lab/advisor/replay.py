"""Own jobs replayed under other settings: how far from their targets the entries would have been, day by day.

The simulator runs the jobs on one machine that they just fill, so that priorities decide who runs when. Priorities are
recomputed once an hour, whatever the algorithm: so all algorithms are compared alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

import numpy as np

from apps.contrib.lab.experiments.simulated_tree import SimulatedTree, simulated_part
from apps.contrib.lab.simulation.log_jobs import Trace
from apps.contrib.lab.simulation.run import delivered, run_jobs
from apps.contrib.lab.simulation.scenario import Noise, Scenario
from apps.contrib.lab.simulation.streams import Site, Span, Stream
from apps.contrib.lab.simulation.workload import Workload, draw
from apps.engine.algorithms.inputs import prepare
from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.cases import Policy
from apps.engine.convergence import demand_error_points, trailing_sum
from apps.engine.decay import Window
from apps.engine.parameters import Settings
from apps.engine.sweep import sum_up
from apps.engine.tree import FairshareTree

DAY_S = 86_400.0
STEP_S = 3600.0  # between two recomputes, each by usage of that age
MOST_ENTRIES = 500  # that submit jobs
MOST_JOBS = 50_000
MOST_DAYS = 56
SHARE_DAYS = 7  # shares are of the last days, as *Convergence* shows them by default in its view of sums
_ONE = Span(1.0, 1.0)


@dataclass(frozen=True, eq=False)
class Jobs:
    """Jobs in order of submission; seconds since the first day began. requested_s: −1 where unknown. entry: of a tree.

    n_days: whole days that are replayed.
    """

    submit_s: FloatArray
    run_s: FloatArray
    requested_s: FloatArray
    cpus: IntArray
    entry: IntArray
    n_days: int

    def __len__(self) -> int:
        return len(self.submit_s)

    def chosen(self, mask: BoolArray | IntArray) -> Jobs:
        return Jobs(
            self.submit_s[mask],
            self.run_s[mask],
            self.requested_s[mask],
            self.cpus[mask],
            self.entry[mask],
            self.n_days,
        )

    @classmethod
    def none(cls) -> Jobs:
        no_numbers, no_ids = np.zeros(0), np.zeros(0, dtype=np.int64)
        return cls(no_numbers, no_numbers, no_numbers, no_ids, no_ids, 0)

    @property
    def core_s(self) -> FloatArray:
        core_s: FloatArray = self.run_s * self.cpus
        return core_s


@dataclass(frozen=True, eq=False)
class Variant:
    """Settings to replay with. algorithm: complete. approach: of usage, by index in `scenario.APPROACHES`."""

    algorithm: Settings
    window: Window
    approach: int = 0


def waiting_core_s(at_s: FloatArray, workload: Workload, started_s: FloatArray) -> FloatArray:
    """Core-seconds of the jobs that wait at these instants, by queue, (times, queues); at_s ascending."""
    jobs, n = workload.jobs, len(workload.entries)
    submit_s = np.empty(len(jobs.order))
    submit_s[workload.arrivals.job] = workload.arrivals.at_s
    start_s = np.where(started_s >= 0, started_s, inf)
    amount = jobs.run_s * jobs.cpus

    def by(instant: FloatArray) -> FloatArray:
        place = np.searchsorted(at_s, instant, side="left") * n + jobs.site_queue % n
        sums = np.bincount(place, amount, minlength=(len(at_s) + 1) * n).reshape(len(at_s) + 1, n)
        so_far: FloatArray = sums[:-1].cumsum(axis=0)
        return so_far

    waiting: FloatArray = np.maximum(by(submit_s) - by(start_s), 0.0)
    return waiting


@dataclass(frozen=True, eq=False)
class Replay:
    """Jobs on the part of a tree that submits them. cpus: of the machine. n_left_out: entries with jobs that are not in
    it, because others used more.
    """

    tree: FairshareTree
    jobs: Jobs
    cpus: int
    n_left_out: int

    @classmethod
    def of(cls, tree: FairshareTree, jobs: Jobs) -> Replay | None:
        """Keep the entries with jobs, those above them, and the shares of their idle siblings as one entry; None if
        fewer than two entries submit jobs.
        """
        counted = jobs.chosen(~tree.is_reserve[jobs.entry] & (jobs.entry > 0) & (jobs.core_s > 0))
        used = np.bincount(counted.entry, counted.core_s, minlength=tree.n_entries).astype(np.float64)
        order = np.argsort(-used, kind="stable")
        n_active = int((used > 0).sum())
        kept = np.zeros(tree.n_entries, dtype=np.bool_)
        kept[order[: min(n_active, MOST_ENTRIES)]] = True
        if kept.sum() < 2:
            return None
        counted = counted.chosen(kept[counted.entry])
        part, place, _ = simulated_part(SimulatedTree.unnamed(tree), kept, np.zeros_like(kept))
        cpus = max(int(np.ceil(counted.core_s.sum() / (jobs.n_days * DAY_S))), 1)
        wide = np.maximum(counted.cpus / cpus, 1.0)
        jobs_there = replace(
            counted,
            entry=place[counted.entry],
            cpus=np.minimum(counted.cpus, cpus),
            run_s=counted.run_s * wide,
            requested_s=np.where(counted.requested_s > 0, counted.requested_s * wide, -1.0),
        )
        return cls(part.engine_tree, jobs_there, cpus, max(0, n_active - MOST_ENTRIES))

    def deviations(self, variant: Variant) -> FloatArray:
        """Distance from fair use at the end of each day, (n_days,), in points; NaN where nothing has run yet.

        In each group: the part of the usage of the last SHARE_DAYS days that would have to be another entry's, so that
        all have their targets as far as their demand allows (`demand_error_points`); demand is usage and waiting jobs.
        The mean over groups is weighted by their usage.
        """
        scenario = self._scenario(variant)
        workload = draw(scenario)
        ran = run_jobs(scenario, workload)
        at_s = DAY_S * np.arange(self.jobs.n_days + 1, dtype=np.float64)
        n_queues = len(workload.entries)
        jobs, started = workload.jobs, ran.started_s >= 0
        so_far = delivered(
            at_s,
            jobs.site_queue[started] % n_queues,
            ran.started_s[started],
            jobs.run_s[started],
            jobs.cpus[started].astype(np.float64),
            n_queues,
        )
        by_queue = np.maximum(np.diff(so_far, axis=0), 0.0)
        waiting = waiting_core_s(at_s[1:], workload, ran.started_s)
        used, demand = (np.zeros((self.jobs.n_days, self.tree.n_entries)) for _ in range(2))
        used[:, workload.entries] = trailing_sum(by_queue.T, SHARE_DAYS).T
        demand[:, workload.entries] = used[:, workload.entries] + waiting
        return self._errors(used, demand)

    def _errors(self, used: FloatArray, demand: FloatArray) -> FloatArray:
        """By day, in points, from usage and demand of the entries themselves, (days, n)."""
        prepared = prepare(self.tree)
        contest, target = prepared.contest, prepared.target
        used, demand = (np.stack([sum_up(self.tree, day)[0] for day in each]) for each in (used, demand))
        used, demand = used[:, prepared.entry], demand[:, prepared.entry]
        errors, weights = np.zeros(len(used)), np.zeros(len(used))
        for group in np.flatnonzero(contest.child_count > 1).tolist():
            first = int(contest.first_child[group])
            here = slice(first, first + int(contest.child_count[group]))
            amount = used[:, here].sum(axis=1)
            weights += amount
            for day in np.flatnonzero(amount > 0).tolist():
                errors[day] += amount[day] * demand_error_points(target[here], used[day, here], demand[day, here])
        points: FloatArray = np.divide(errors, weights, out=np.full(len(used), np.nan), where=weights > 0)
        return points

    def _scenario(self, variant: Variant) -> Scenario:
        tree, jobs = self.tree, self.jobs
        trace = Trace("", jobs.submit_s, jobs.run_s, jobs.requested_s, jobs.cpus, jobs.entry, unmapped=0, idle=0)
        stream = Stream("jobs", -1, inf, False, _ONE, _ONE, 1, (0,), 0.0, inf, None, trace)
        return Scenario(
            id=None,
            seed=1,
            end_s=jobs.n_days * DAY_S,
            sites=(Site("all", self.cpus),),
            policy=Policy(tree, [], {}),
            scope_is_global=np.zeros(tree.n_entries, dtype=np.bool_),
            algorithm=variant.algorithm,
            local_approach=variant.approach,
            global_approach=variant.approach,
            global_refresh_s=STEP_S,
            window=variant.window,
            noise=Noise(),
            priority_refresh_s=STEP_S,
            backfill=True,
            sam=None,
            streams=(stream,),
            report_h=(),
            aging_step_s=STEP_S,
        )
