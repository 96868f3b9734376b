"""Own jobs replayed under other settings: how far from fair use the entries would have been, day by day.

Each site runs its jobs on as many processors as ran there at once on that day: what the machine delivered, however much
was asked of it. Priorities are recomputed once an hour, whatever the algorithm: so all algorithms are compared alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from apps.contrib.lab.fair_use import fair_use
from apps.contrib.lab.simulated_tree import SimulatedTree, simulated_part
from apps.contrib.lab.simulation.log_jobs import Trace
from apps.contrib.lab.simulation.run import delivered, run_jobs
from apps.contrib.lab.simulation.scenario import Noise, PastUsage, Resize, Scenario
from apps.contrib.lab.simulation.streams import Site, Span, Stream
from apps.contrib.lab.simulation.workload import draw
from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.cases import Policy
from apps.engine.convergence import trailing_sum
from apps.engine.decay import Window
from apps.engine.parameters import Settings
from apps.engine.tree import FairshareTree

DAY_S = 86_400.0
STEP_S = 3600.0  # between two recomputes, each by usage of that age
MOST_REPLAYED_ENTRIES = 500  # that submit jobs
MOST_REPLAYED_JOBS = 50_000  # of one replay
MOST_REPLAY_DAYS = 56
SHARE_DAYS = 7  # shares are of the last days, as *Convergence* shows them by default in its view of sums
_ONE = Span(1.0, 1.0)


@dataclass(frozen=True, eq=False)
class Jobs:
    """Jobs in order of submission; seconds since the first day began. requested_s: −1 where unknown. entry: of a tree.

    started_s: when each started in fact, 0 for those that ran when the first day began; NaN for those that have not
    started, which wait and count as demand alone. rate: usage per second in the policy's metric. site: index, from 0.
    n_days: whole days that are replayed.
    """

    submit_s: FloatArray
    run_s: FloatArray
    requested_s: FloatArray
    cpus: IntArray
    entry: IntArray
    started_s: FloatArray
    rate: FloatArray
    site: IntArray
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
            self.started_s[mask],
            self.rate[mask],
            self.site[mask],
            self.n_days,
        )

    @classmethod
    def none(cls) -> Jobs:
        no_numbers, no_ids = np.zeros(0), np.zeros(0, dtype=np.int64)
        return cls(no_numbers, no_numbers, no_numbers, no_ids, no_ids, no_numbers, no_numbers, no_ids, 0)


@dataclass(frozen=True, eq=False)
class Variant:
    """Settings to replay with. algorithm: complete. approach: of usage, by index in `scenario.APPROACHES`."""

    algorithm: Settings
    window: Window
    approach: int = 0


@dataclass(frozen=True, eq=False)
class Replay:
    """Jobs on the part of a tree that submits them.

    past: usage before the first day. cpus: processors by site and day, (sites, days). n_left_out: entries with jobs
    that are not in it, because others used more. origin_s: the first day's begin, in seconds since 1970.
    """

    tree: FairshareTree
    jobs: Jobs
    past: PastUsage | None
    cpus: IntArray
    n_left_out: int
    origin_s: float

    @classmethod
    def of(
        cls, tree: FairshareTree, jobs: Jobs, past: PastUsage | None = None, *, origin_s: float = 0.0
    ) -> Replay | None:
        """Keep the entries with jobs, those above them, and the shares of their idle siblings as one entry; None if
        fewer than two entries submit jobs.
        """
        amount = jobs.run_s * jobs.rate
        counted = jobs.chosen(~tree.is_reserve[jobs.entry] & (jobs.entry > 0) & (amount > 0))
        used = np.bincount(counted.entry, counted.run_s * counted.rate, minlength=tree.n_entries)
        order = np.argsort(-used, kind="stable")
        n_active = int((used > 0).sum())
        kept = np.zeros(tree.n_entries, dtype=np.bool_)
        kept[order[: min(n_active, MOST_REPLAYED_ENTRIES)]] = True
        if kept.sum() < 2:
            return None
        counted = counted.chosen(kept[counted.entry])
        has_usage = np.zeros_like(kept)
        if past is not None:
            has_usage[past.entry] = True
        part, place, place_of_usage = simulated_part(SimulatedTree.unnamed(tree), kept, has_usage)
        if past is not None:
            past = replace(past, entry=place_of_usage[past.entry])
        n_sites = int(counted.site.max(initial=-1)) + 1
        columns = (counted.site, counted.started_s, counted.run_s, counted.cpus)
        cpus = processors_by_day(*columns, n_sites, counted.n_days)
        jobs_there = narrowed(replace(counted, entry=place[counted.entry]), cpus.max(axis=1))
        return cls(part.engine_tree, jobs_there, past, cpus, max(0, n_active - MOST_REPLAYED_ENTRIES), origin_s)

    def sampled(self, one_in: int, number: int) -> Replay:
        """One job in so many, on as much fewer processors. number: which of these samples, each with jobs of its own
        as long as there are so many.
        """
        if one_in <= 1:
            return self
        classes = np.random.default_rng(one_in).integers(one_in, size=len(self.jobs))
        cpus = np.maximum(np.rint(self.cpus / one_in).astype(np.int64), (self.cpus > 0).astype(np.int64))
        jobs = narrowed(self.jobs.chosen(classes == number % one_in), cpus.max(axis=1))
        past = None if self.past is None else replace(self.past, amount=self.past.amount / one_in)
        return replace(self, jobs=jobs, cpus=cpus, past=past)

    def deviations(self, variant: Variant, progress: Callable[[float], None] | None = None) -> FloatArray:
        """Distance from fair use at the end of each day with these settings, (n_days,); see `distances`."""
        scenario = self._scenario(variant)
        workload = draw(scenario)
        started_s = np.full(len(self.jobs), np.nan)
        ran_s = run_jobs(scenario, workload, progress).started_s
        started_s[workload.row] = np.where(ran_s >= 0, ran_s, np.nan)
        return self.distances(started_s)

    def distances(self, started_s: FloatArray) -> FloatArray:
        """Distance from fair use at the end of each day, (n_days,), in points; NaN where nothing has run yet.

        started_s: of each job, NaN for never. Of the usage of the last SHARE_DAYS days (`fair_use`); demand is usage
        and waiting jobs.
        """
        used = trailing_sum(self.used_by_day(started_s).T, SHARE_DAYS).T
        return fair_use(self.tree, used, used + self._waiting(started_s)).at

    def used_by_day(self, started_s: FloatArray) -> FloatArray:
        """Usage of the entries themselves on each day, (days, n), if the jobs start at these instants."""
        jobs, ran = self.jobs, np.isfinite(started_s)
        at_s = DAY_S * np.arange(jobs.n_days + 1, dtype=np.float64)
        so_far = delivered(at_s, jobs.entry[ran], started_s[ran], jobs.run_s[ran], jobs.rate[ran], self.tree.n_entries)
        used: FloatArray = np.maximum(np.diff(so_far, axis=0), 0.0)
        return used

    @property
    def job_points(self) -> float:
        """The typical job in points of the mean usage of SHARE_DAYS days: to whom one job goes is chance."""
        typical, jobs = typical_amount(self.jobs), self.jobs
        used = float(self.used_by_day(jobs.started_s).sum()) * SHARE_DAYS / jobs.n_days
        return 0.0 if typical is None or used <= 0 else 100.0 * typical / used

    def _waiting(self, started_s: FloatArray) -> FloatArray:
        """Usage of the jobs that wait at the end of each day, by entry, (days, n)."""
        jobs, n = self.jobs, self.tree.n_entries
        ends_s = DAY_S * np.arange(1, jobs.n_days + 1, dtype=np.float64)
        amount = jobs.run_s * jobs.rate

        def by(instant: FloatArray) -> FloatArray:
            place = np.searchsorted(ends_s, instant, side="left") * n + jobs.entry
            sums = np.bincount(place, amount, minlength=(len(ends_s) + 1) * n).reshape(len(ends_s) + 1, n)
            so_far: FloatArray = sums[:-1].cumsum(axis=0)
            return so_far

        started_s = np.where(np.isfinite(started_s), started_s, inf)
        waiting: FloatArray = np.maximum(by(jobs.submit_s) - by(started_s), 0.0)
        return waiting

    def _scenario(self, variant: Variant) -> Scenario:
        tree, jobs = self.tree, self.jobs
        sites = tuple(Site(str(number), max(int(most), 1)) for number, most in enumerate(self.cpus.max(axis=1)))
        trace = Trace(
            "",
            jobs.submit_s,
            jobs.run_s,
            jobs.requested_s,
            jobs.cpus,
            jobs.entry,
            unmapped=0,
            idle=0,
            site=jobs.site,
            rate=jobs.rate,
        )
        everywhere = tuple(range(len(sites)))
        stream = Stream("jobs", -1, inf, False, _ONE, _ONE, 1, everywhere, 0.0, inf, None, trace)
        return Scenario(
            id=None,
            seed=1,
            end_s=jobs.n_days * DAY_S,
            sites=sites,
            policy=Policy(tree, [], {}),
            scope_is_global=np.ones(tree.n_entries, dtype=np.bool_),
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
            past=self.past,
            origin_s=self.origin_s,
            aging_step_s=STEP_S,
            resizes=self._resizes(),
        )

    def _resizes(self) -> tuple[Resize, ...]:
        days = range(self.jobs.n_days)
        return tuple(
            Resize(DAY_S * day, site, int(self.cpus[site, day])) for day in days for site in range(len(self.cpus))
        )


def typical_amount(jobs: Jobs) -> float | None:
    """Usage of the job up to which half of all work was done; None without any that started after the begin.

    By work, not by number: a thousand jobs of a second don't make the typical job a second long.
    """
    ran = np.isfinite(jobs.started_s) & (jobs.started_s > 0)
    amount = np.sort((jobs.run_s * jobs.rate)[ran])
    amount = amount[amount > 0]
    if not len(amount):
        return None
    so_far = np.cumsum(amount)
    return float(amount[np.searchsorted(so_far, so_far[-1] / 2)])


def processors_by_day(
    site: IntArray, started_s: FloatArray, run_s: FloatArray, cpus: IntArray, n_sites: int, n_days: int
) -> IntArray:
    """The most processors that jobs ran on at once on each day, (sites, days); ends come before starts.

    started_s: from the first day's begin, NaN for never.
    """
    most = np.zeros((n_sites, n_days), dtype=np.int64)
    ran = np.isfinite(started_s) & (started_s < n_days * DAY_S)
    for number in range(n_sites):
        here = ran & (site == number)
        begins_s, width = started_s[here], cpus[here]
        at_s = np.concatenate([begins_s + run_s[here], begins_s])
        change = np.concatenate([-width, width])
        order = np.argsort(at_s, kind="stable")
        busy, at_s = np.cumsum(change[order]), at_s[order]
        day = np.floor(at_s / DAY_S).astype(np.int64)
        inside = (day >= 0) & (day < n_days)
        np.maximum.at(most[number], day[inside], busy[inside])
        # What runs when a day begins, of which the day may have no start and no end.
        last = np.searchsorted(at_s, DAY_S * np.arange(n_days), side="right") - 1
        if len(busy):
            most[number] = np.maximum(most[number], np.where(last >= 0, busy[last], 0))
    return most


def narrowed(jobs: Jobs, most_cpus: IntArray) -> Jobs:
    """Jobs that need more processors than their site has run on all of them, for as much longer."""
    most = np.maximum(most_cpus, 1)[jobs.site]
    wide = np.maximum(jobs.cpus / most, 1.0)
    return replace(
        jobs,
        cpus=np.minimum(jobs.cpus, most),
        run_s=jobs.run_s * wide,
        rate=jobs.rate / wide,
        requested_s=np.where(jobs.requested_s > 0, jobs.requested_s * wide, -1.0),
    )
