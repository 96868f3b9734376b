"""Sites with SAM's queue before the first event, and what was booked for each group in the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from apps.engine.algorithms.inputs import prepare
from apps.engine.arrays import FloatArray, IntArray
from apps.engine.simulation import sam_queue
from apps.engine.simulation.columns import State, form_for
from apps.engine.simulation.contest import flat_nodes
from apps.engine.simulation.sam_queue import Line
from apps.engine.simulation.scenario import BOOKED_AT, Scenario
from apps.engine.simulation.sites import empty_state, plan_of
from apps.engine.simulation.workload import Workload


def run_sam(scenario: Scenario, workload: Workload) -> tuple[Callable[[float], None], State, Line]:
    """(a function that runs the sites up to an instant, their state, their lines)."""
    n_queues = len(workload.entries)
    nodes, paths = flat_nodes(n_queues)
    plan = plan_of(scenario, n_queues, nodes, paths, is_flat=True, keeps_queues=False)
    form = form_for(len(workload.jobs.place))
    state = form.columns(empty_state(scenario, workload, plan))
    line = form.columns(empty_line(scenario, workload.entries, len(workload.jobs.place)))
    given: tuple[Any, ...] = tuple(map(form.columns, (workload.arrivals, workload.leavings, workload.jobs)))
    advance: Callable[..., None] = form.loop(sam_queue.advance)
    return (lambda until_s: advance(until_s, *given, line, state)), state, line


def empty_line(scenario: Scenario, entries: IntArray, n_jobs: int) -> Line:
    """No job waits and nothing is booked; sites keep books of their own where the root's scope is local."""
    assert scenario.sam is not None  # noqa: S101 - the caller has checked
    classes = sorted({stream.priority for stream in scenario.streams if stream.priority is not None})
    class_of = [-1 if s.priority is None else 2 + classes.index(s.priority) for s in scenario.streams]
    n_sites, n_ledgers = len(scenario.sites), 1 if scenario.scope_is_global[0] else len(scenario.sites)
    n_classes = 2 + len(classes)
    return Line(
        first=np.full(n_sites * n_classes, -1, dtype=np.int64),
        last=np.full(n_sites * n_classes, -1, dtype=np.int64),
        behind=np.full(n_jobs, -1, dtype=np.int64),
        share=fair_shares(scenario)[entries],
        received=np.zeros(n_ledgers * len(entries)),
        total=np.zeros(n_ledgers),
        class_of=np.array(class_of, dtype=np.int64),
        classes=n_classes,
        sites=n_sites,
        queues=len(entries),
        ledgers=n_ledgers,
        booked_at=BOOKED_AT.index(scenario.sam.booked_at),
        is_lifo=scenario.sam.front == "lifo",
        backfills=scenario.backfill,
    )


def fair_shares(scenario: Scenario) -> FloatArray:
    """Shares of the leaves in the whole, (n,), sum 1 without those that only run jobs of priority groups."""
    tree = scenario.policy.tree
    prepared = prepare(tree)
    share = np.where(tree.is_ranked & ~tree.inherits, prepared.spread(prepared.target_global), 0.0)
    for entry in _entries_of(scenario, is_fair=False) - _entries_of(scenario, is_fair=True):
        share[entry] = 0.0
    whole = float(share.sum())
    return share / whole if whole > 0 else share


def booked_shares(scenario: Scenario, entries: IntArray, line: Line) -> dict[str, float | None]:
    """Parts of all booked benefit, by path of the fair-share groups; null while nothing is booked."""
    fair = _entries_of(scenario, is_fair=True)
    received = np.asarray(line.received, dtype=np.float64).reshape(-1, len(entries)).sum(axis=0)
    whole = float(received.sum())
    return {
        scenario.policy.paths[entry]: float(received[queue]) / whole if whole > 0 else None
        for queue, entry in enumerate(entries.tolist())
        if entry in fair
    }


def _entries_of(scenario: Scenario, *, is_fair: bool) -> set[int]:
    """Who runs jobs outside (or of) priority groups."""
    found: set[int] = set()
    for stream in scenario.streams:
        if (stream.priority is None) == is_fair:
            found |= {stream.entry} if stream.trace is None else set(stream.trace.entry.tolist())
    return found
