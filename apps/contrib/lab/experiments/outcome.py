"""What a simulation gave, by entry and over time: waits, delivered core-hours, shares beside targets. Pure.

Shares are those that the policy compares: of the usage in its window, by its decay function, among siblings. A wait
lasts from the submission to the start; that of a job which hasn't started by the end is counted until the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.contrib.lab.experiments.inputs import Inputs, VariantInputs
from apps.contrib.lab.fair_use import FairUse, fair_use, kept_from
from apps.contrib.lab.simulated_tree import SimulatedTree
from apps.contrib.lab.simulation.run import delivered, rms_points
from apps.contrib.lab.simulation.streams import HOUR_S
from apps.core import blobs
from apps.engine import convergence, decay, sweep
from apps.engine.algorithms.inputs import prepare
from apps.priorities.metering import window_of
from apps.series.convergence.verdict import half_band

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
I4 = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
MOST_SAMPLED_INSTANTS = 337  # instants with shares: two weeks by the hour
MOST_SHOWN_ENTRIES = 300  # entries with values over time
FIRST_SAMPLE_H = 6.0  # means over time begin then: before, a few jobs decide
FAIR_DAYS, MOST_FAIR_SAMPLES = 7, 28
_MOST_OUTCOME_VALUES = 4_000_000  # instants × entries held at a time
_STEPS_H = (0.5, 1.0, 2.0, 3.0, 6.0, 12.0, 24.0)


@dataclass(frozen=True, eq=False)
class RanJobs:
    """Simulated jobs, (n,). entry: in the tree of the variant. start_s: NaN where it has not started by the end.

    before_s: waited before the start of the simulation. rate: usage per second. counts: whether its wait counts.
    """

    entry: I8
    at_s: F8
    before_s: F8
    start_s: F8
    run_s: F8
    cpus: F8
    rate: F8
    counts: Mask


@dataclass(frozen=True, eq=False)
class Outcome:
    """By entry of the simulated tree, (n,): target among its siblings, NaN where it doesn't compete; jobs at and below
    it whose waits count, and those of them that still wait at the end; waits in seconds, NaN without jobs; core-hours;
    rms: of a group, root mean square distance of its children's shares from their targets in points, NaN where unknown;
    fair: of a group, its distance from fair use in points over the whole time (`fair_use`), NaN where unknown;
    settled_h: of a group, the hour from which on all children stay at fair use, within the tolerance of the policy
    (`kept_from`); infinite: not by the end; NaN where unknown.

    shown: (k,) entries with values over time. at_h: (t,) hours from the start. share: (t, k), 0..1, NaN where nothing
    is compared. day_core_h: (d, k) core-hours by day. busy: (sites,) part of the processors that was busy.
    """

    uid: npt.NDArray[np.uint8]
    parent: I8
    name: Any
    is_group: Mask
    is_rest: Mask
    target: F8
    n_jobs: I8
    n_waiting: I8
    wait_mean_s: F8
    wait_median_s: F8
    wait_p90_s: F8
    core_h: F8
    rms: F8
    fair: F8
    settled_h: F8
    shown: I8
    at_h: F8
    share: F8
    day_core_h: F8
    busy: F8
    numbers: Mapping[str, Any]

    def pack(self) -> tuple[bytes, str]:
        columns = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "numbers"}
        return blobs.pack({**columns, "name": list(self.name)}, {"numbers": dict(self.numbers)})

    @classmethod
    def unpack(cls, data: bytes | memoryview, digest: str) -> Outcome:
        """Raises CorruptBlob as `blobs.unpack`."""
        columns, meta = blobs.unpack(data, digest)
        if "fair" not in columns:  # of a release before, which compared with bare targets
            unknown = np.full(len(columns["rms"]), np.nan)
            columns = {**columns, "fair": unknown, "settled_h": unknown}
        return cls(**columns, numbers=meta["numbers"])

    def path(self, i: int) -> str:
        names = []
        while i > 0:
            names.append(self.name[i])
            i = int(self.parent[i])
        return "/" + "/".join(reversed(names))


def outcome_of(inputs: Inputs, variant: VariantInputs, jobs: RanJobs, numbers: Mapping[str, Any]) -> Outcome:
    """Sum up the jobs of one variant. numbers: further totals, stored as they are."""
    tree = variant.tree
    end_s = inputs.hours * HOUR_S
    shown = _shown(tree, jobs)
    at_h, share, group_states = _over_time(inputs, variant, jobs, shown)
    n_jobs, n_waiting, waits = _waits(tree, jobs, end_s)
    fair = _fair_use(inputs, tree, jobs)
    core_s = _between(jobs, jobs.cpus, np.array([0.0, end_s]), len(tree))[0]
    total = sweep.sum_up(tree.engine_tree, core_s)[0]
    return Outcome(
        uid=tree.uid,
        parent=tree.parent,
        name=tree.name,
        is_group=tree.engine_tree.child_count > 0,
        is_rest=tree.is_rest,
        target=_targets(tree),
        n_jobs=n_jobs,
        n_waiting=n_waiting,
        wait_mean_s=waits[0],
        wait_median_s=waits[1],
        wait_p90_s=waits[2],
        core_h=total / HOUR_S,
        rms=group_states[0],
        fair=fair.groups,
        settled_h=group_states[1],
        shown=shown,
        at_h=at_h,
        share=share,
        day_core_h=_by_day(inputs, tree, jobs, shown),
        busy=numbers["busy"],
        numbers={**{name: value for name, value in numbers.items() if name != "busy"}, "fair_points": fair.mean},
    )


def _targets(tree: SimulatedTree) -> F8:
    prepared = prepare(tree.engine_tree)
    target = np.where(tree.inherits, np.nan, prepared.spread(prepared.target))
    target[0] = np.nan
    return target


def _shown(tree: SimulatedTree, jobs: RanJobs) -> I8:
    """The entries of the top levels, as many levels as fit; of the first that doesn't, those with most core-hours."""
    engine_tree = tree.engine_tree
    own = np.bincount(jobs.entry, jobs.cpus * jobs.run_s, minlength=len(tree))
    wanted = sweep.sum_up(engine_tree, own)[0]
    shown: list[I8] = []
    n_shown = 0
    for level in engine_tree.levels:
        here = level.lo + np.flatnonzero(~tree.is_rest[level.lo : level.hi])
        if n_shown + len(here) > MOST_SHOWN_ENTRIES:
            largest = here[np.argsort(-wanted[here], kind="stable")[: MOST_SHOWN_ENTRIES - n_shown]]
            return np.concatenate([*shown, np.sort(largest)])
        shown.append(here)
        n_shown += len(here)
    return np.concatenate([*shown, np.zeros(0, np.int64)])


def _step_h(hours: float, n_entries: int) -> float:
    """The shortest step between samples that their numbers allow."""
    fitting = (
        step
        for step in _STEPS_H
        if hours / step <= MOST_SAMPLED_INSTANTS and hours / step * n_entries <= _MOST_OUTCOME_VALUES
    )
    return next(fitting, max(_STEPS_H[-1], hours / MOST_SAMPLED_INSTANTS))


def _between(jobs: RanJobs, weight: F8, at_s: F8, n_entries: int) -> F8:
    """(steps, n): weight × seconds that jobs of an entry ran between consecutive instants; at_s ascending."""
    started = np.isfinite(jobs.start_s)
    sums = delivered(at_s, jobs.entry[started], jobs.start_s[started], jobs.run_s[started], weight[started], n_entries)
    between: F8 = np.diff(sums, axis=0)
    return between


def _over_time(inputs: Inputs, variant: VariantInputs, jobs: RanJobs, shown: I8) -> tuple[F8, F8, tuple[F8, F8]]:
    """(sampled hours, shares of the shown entries, (rms, settled hour) of each group)."""
    tree = variant.tree
    step_h = _step_h(inputs.hours, len(tree))
    n_steps = max(1, int(np.floor(inputs.hours / step_h + 1e-9)))
    at_h = step_h * np.arange(1, n_steps + 1, dtype=np.float64)
    bounds_s = HOUR_S * np.concatenate([[0.0], at_h])
    used = _between(jobs, jobs.rate, bounds_s, len(tree))
    own = _in_window(used, inputs, variant, bounds_s)
    engine_tree = tree.engine_tree
    total = np.stack([sweep.sum_up(engine_tree, row)[0] for row in own])
    used_total = np.stack([sweep.sum_up(engine_tree, row)[0] for row in used])
    share = _shares(tree, total)
    return at_h, share[:, shown], (_rms(variant, at_h, share), _settled(variant, jobs, at_h, used_total))


def _fair_use(inputs: Inputs, tree: SimulatedTree, jobs: RanJobs) -> FairUse:
    """At up to MOST_FAIR_SAMPLES instants, of the usage of the FAIR_DAYS before each, as advice counts it."""
    end_s = inputs.hours * HOUR_S
    n_samples = max(1, min(MOST_FAIR_SAMPLES, int(inputs.hours / FIRST_SAMPLE_H)))
    ends_s = end_s * np.arange(1, n_samples + 1) / n_samples
    begins_s = np.maximum(0.0, ends_s - FAIR_DAYS * 86_400.0)
    instants_s, place = np.unique(np.concatenate([begins_s, ends_s]), return_inverse=True)
    started = np.isfinite(jobs.start_s)
    columns = (jobs.entry[started], jobs.start_s[started], jobs.run_s[started], jobs.rate[started])
    so_far = delivered(instants_s, *columns, len(tree))
    used = np.maximum(so_far[place[n_samples:]] - so_far[place[:n_samples]], 0.0)
    waiting = _waiting(jobs, np.concatenate([[0.0], ends_s]), len(tree), jobs.rate * jobs.run_s)
    return fair_use(tree.engine_tree, used, used + np.maximum(waiting, 0.0))


def _in_window(used: F8, inputs: Inputs, variant: VariantInputs, bounds_s: F8) -> F8:
    """(steps, n) usage that counts at the end of each step, by its age at the middle of the step in which it ran."""
    window = window_of(variant.settings["window"])
    ends_s = bounds_s[1:]
    middle_s = (bounds_s[:-1] + ends_s) / 2
    weights = np.stack(
        [
            np.where(
                middle_s < end_s,
                decay.weights(np.maximum(0.0, end_s - middle_s), window, end_s + inputs.origin_s),
                0.0,
            )
            for end_s in ends_s.tolist()
        ]
    )
    counted: F8 = weights @ used
    past = variant.past
    if len(past.entry):
        hours, at = np.unique(past.hour, return_inverse=True)
        ages_s = HOUR_S * (hours.astype(np.float64) + 0.5)
        for row, end_s in enumerate(ends_s.tolist()):
            weight = decay.weights(end_s - ages_s, window, end_s + inputs.origin_s)[at.reshape(-1)]
            counted[row] += np.bincount(past.entry, past.amount * weight, minlength=used.shape[1])
    return counted


def _waiting(jobs: RanJobs, bounds_s: F8, n_entries: int, weight: F8) -> F8:
    """(steps, n) sum of the weights of the jobs that waited at the end of each step."""
    ends_s = bounds_s[1:]
    width = len(ends_s) + 1
    begins = np.searchsorted(ends_s, jobs.at_s, side="left")
    ends = np.searchsorted(ends_s, np.where(np.isfinite(jobs.start_s), jobs.start_s, np.inf), side="left")
    counts = np.zeros(width * n_entries)
    for at, sign in ((begins, 1.0), (ends, -1.0)):
        counts += sign * np.bincount(at * n_entries + jobs.entry, weight, minlength=width * n_entries)
    waiting: F8 = counts.reshape(width, n_entries).cumsum(axis=0)[:-1]
    return waiting


def _shares(tree: SimulatedTree, total: F8) -> F8:
    """(steps, n) shares among those that compete with one another; NaN where none of them has usage."""
    prepared = prepare(tree.engine_tree)
    contest, entry = prepared.contest, prepared.entry
    share = np.full(total.shape, np.nan)
    for row, values in enumerate(total):
        competing = values[entry]
        peers = sweep.sibling_sum(contest, competing)[np.maximum(contest.parent, 0)]
        share[row, entry] = np.where(peers > 0, convergence.actual_share(competing, peers), np.nan)
    share[:, 0] = np.nan
    return share


def _rms(variant: VariantInputs, at_h: F8, share: F8) -> F8:
    """Of each group, (n,)."""
    tree = variant.tree
    rms = np.full(len(tree), np.nan)
    late = share[at_h >= FIRST_SAMPLE_H]
    for entry, points in rms_points(
        tree.policy, 100.0 * np.nan_to_num(late), np.isfinite(late).astype(np.float64), ~tree.is_rest
    ).items():
        rms[entry] = points
    return rms


def _settled(variant: VariantInputs, jobs: RanJobs, at_h: F8, used: F8) -> F8:
    """Of each group, (n,): by usage of FAIR_DAYS and waiting jobs, as points from fair use. used: in each step."""
    tree = variant.tree.engine_tree
    bounds_s = HOUR_S * np.concatenate([[0.0], at_h])
    so_far = np.concatenate([np.zeros((1, used.shape[1])), used.cumsum(axis=0)])
    first = np.searchsorted(bounds_s, bounds_s[1:] - FAIR_DAYS * 86_400.0 + 1e-6, side="left")
    recent = np.maximum(so_far[1:] - so_far[first], 0.0)
    work = _waiting(jobs, bounds_s, len(variant.tree), jobs.rate * jobs.run_s)
    asked = np.stack([sweep.sum_up(tree, np.maximum(row, 0.0))[0] for row in work])
    tolerance = variant.settings["tolerance"]
    return kept_from(tree, recent, recent + asked, at_h, lambda fair, is_leaf: half_band(fair, tolerance, is_leaf))


def _waits(tree: SimulatedTree, jobs: RanJobs, end_s: float) -> tuple[I8, I8, tuple[F8, F8, F8]]:
    """(jobs, of these still waiting, (mean, median, 90th percentile)) of each entry and all below it, (n,)."""
    n = len(tree)
    started = np.isfinite(jobs.start_s)
    wait = (np.where(started, jobs.start_s, end_s) - jobs.at_s + jobs.before_s)[jobs.counts]
    entry, still = jobs.entry[jobs.counts], ~started[jobs.counts]
    order = np.argsort(wait, kind="stable")
    wait, entry, still = wait[order], entry[order], still[order]
    n_jobs, n_waiting = np.zeros(n, np.int64), np.zeros(n, np.int64)
    sums, median, p90 = np.zeros(n), np.full(n, np.nan), np.full(n, np.nan)
    level_of = np.repeat(np.arange(len(tree.engine_tree.level_offsets) - 1), np.diff(tree.engine_tree.level_offsets))
    for level in range(len(tree.engine_tree.level_offsets) - 2, -1, -1):
        here = level_of[entry] == level
        at = entry[here] if not here.all() else entry
        values = wait[here] if not here.all() else wait
        by_entry = np.argsort(at.astype(np.int32), kind="stable")
        at, values = at[by_entry], values[by_entry]
        counts = np.bincount(at, minlength=n)
        first = np.cumsum(counts) - counts
        has = np.flatnonzero(counts)
        n_jobs += counts
        n_waiting += np.bincount(entry[here], still[here], minlength=n).astype(np.int64)
        sums += np.bincount(at, values, minlength=n)
        median[has] = _quantile(values, first[has], counts[has], 0.5)
        p90[has] = _quantile(values, first[has], counts[has], 0.9)
        entry = np.where(here, tree.parent[entry], entry) if level else entry
    mean = np.divide(sums, n_jobs, out=np.full(n, np.nan), where=n_jobs > 0)
    return n_jobs, n_waiting, (mean, median, p90)


def _quantile(values: F8, first: I8, count: I8, part: float) -> F8:
    """Of each run of sorted values, interpolated linearly between neighbours."""
    at = part * (count - 1)
    low = np.floor(at).astype(np.int64)
    high = np.minimum(low + 1, count - 1)
    below, above = values[first + low], values[first + high]
    quantile: F8 = below + (above - below) * (at - low)
    return quantile


def _by_day(inputs: Inputs, tree: SimulatedTree, jobs: RanJobs, shown: I8) -> F8:
    bounds_s = np.array([0.0, *inputs.day_ends_s])
    rows = [
        sweep.sum_up(tree.engine_tree, row)[0][shown] / HOUR_S for row in _between(jobs, jobs.cpus, bounds_s, len(tree))
    ]
    return np.stack(rows) if rows else np.zeros((0, len(shown)))
