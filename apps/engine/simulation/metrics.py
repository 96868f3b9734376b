"""What the sites delivered: shares among siblings at given hours, and how far they are from target."""

from __future__ import annotations

from typing import Any

import numpy as np

from apps.engine.algorithms.inputs import prepare
from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.cases import Policy
from apps.engine.simulation.columns import Jobs
from apps.engine.simulation.scenario import Scenario
from apps.engine.simulation.streams import HOUR_S
from apps.engine.tree import FairshareTree

FIRST_SAMPLE_H, SAMPLE_STEP_H = 6.0, 0.5


def delivered(at_s: FloatArray, jobs: Jobs, started_s: FloatArray, n_queues: int) -> FloatArray:
    """CPU seconds since the start by instant and queue, (times, queues); at_s ascending.

    `T · (started − ended) − (Σ starts − Σ ends)`, each weighted by processors and up to T: running jobs' elapsed part
    is included.
    """
    ran = started_s >= 0
    start, cpus, queue = started_s[ran], jobs.cpus[ran].astype(np.float64), jobs.place[ran] % n_queues
    end = start + jobs.run_s[ran]
    n = len(at_s)
    width = max(n_queues, 1)

    def up_to(instant: FloatArray, weight: FloatArray) -> FloatArray:
        bucket = np.searchsorted(at_s, instant, side="left") * width + queue
        return np.bincount(bucket, weight, minlength=(n + 1) * width).reshape(n + 1, width)[:n].cumsum(axis=0)

    running = up_to(start, cpus) - up_to(end, cpus)
    since = up_to(start, cpus * start) - up_to(end, cpus * end)
    found: FloatArray = np.maximum(0.0, at_s[:, np.newaxis] * running - since)[:, :n_queues]
    return found


def shares_of_parent(tree: FairshareTree, usage: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(percentage among siblings, usage of the group it is a part of), each (times, n), from (times, n) own usage."""
    total = usage.copy()
    share, group = np.zeros_like(usage), np.zeros_like(usage)
    for level in reversed(tree.levels):
        here = slice(level.lo, level.hi)
        whole = np.add.reduceat(total[:, here], level.starts, axis=1)
        total[:, level.parents] += whole
        group[:, here] = np.repeat(whole, level.counts, axis=1)
        share[:, here] = 100.0 * total[:, here] / np.where(group[:, here] > 0, group[:, here], 1.0)
    return share, group


def report(scenario: Scenario, entries: IntArray, jobs: Jobs, started_s: FloatArray) -> dict[str, Any]:
    """`reports` and `rms_points` of a result."""
    policy = scenario.policy
    n_half_hours = int(np.floor((scenario.end_s / HOUR_S - FIRST_SAMPLE_H) / SAMPLE_STEP_H + 1e-9)) + 1
    samples_h = FIRST_SAMPLE_H + SAMPLE_STEP_H * np.arange(max(0, n_half_hours))
    hours = np.concatenate([np.array(scenario.report_h, dtype=np.float64), samples_h])
    at_s, row = np.unique(hours * HOUR_S, return_inverse=True)
    by_queue = delivered(at_s, jobs, started_s, len(entries))
    usage = np.zeros((len(at_s), policy.tree.n_entries))
    usage[:, entries] = by_queue
    share, group = shares_of_parent(policy.tree, usage)
    n_reports = len(scenario.report_h)
    reports = [
        {"hour": hour, "share_of_parent": _told(policy, share[i], group[i])}
        for hour, i in zip(scenario.report_h, row[:n_reports].tolist(), strict=True)
    ]
    sampled = row[n_reports:]
    return {"reports": reports, "rms_points": _rms_points(policy, share[sampled], group[sampled])}


def _told(policy: Policy, share: FloatArray, group: FloatArray) -> dict[str, float | None]:
    return {
        path: float(share[entry]) if group[entry] > 0 else None for entry, path in enumerate(policy.paths) if entry > 0
    }


def _rms_points(policy: Policy, share: FloatArray, group: FloatArray) -> dict[str, float | None]:
    """Of each group whose children all have a target of their own: null where it had nothing, or its children haven't.

    Children of an entry with *inherit* shares compete one level up, so neither group has targets that add up.
    """
    tree = policy.tree
    target = 100.0 * prepare(tree).spread(prepare(tree).target)
    has_targets = _has_targets(tree.inherits, tree.parent.astype(np.int64))
    found: dict[str, float | None] = {}
    for entry in np.flatnonzero(tree.child_count > 0).tolist():
        children = slice(int(tree.first_child[entry]), int(tree.first_child[entry] + tree.child_count[entry]))
        used = group[:, children.start] > 0
        gaps = share[used, children] - target[children]
        is_told = bool(has_targets[entry]) and gaps.size > 0
        found[policy.paths[entry] or "/"] = float(np.sqrt(np.mean(gaps**2))) if is_told else None
    return found


def _has_targets(inherits: BoolArray, parent: IntArray) -> BoolArray:
    """Whether the children of an entry are exactly those who compete there."""
    found = ~inherits
    found[parent[inherits]] = False
    return found
