"""Sites before the first event: plan, empty queues, free processors, no usage."""

from __future__ import annotations

import numpy as np

from apps.engine.simulation.columns import (
    N_COUNTERS,
    PENDING,
    Books,
    Busy,
    Machines,
    Nodes,
    Paths,
    Plan,
    Queues,
    Sheet,
    State,
    Told,
)
from apps.engine.simulation.scenario import Scenario
from apps.engine.simulation.workload import Workload


def plan_of(
    scenario: Scenario, n_queues: int, nodes: Nodes, paths: Paths, *, is_flat: bool, keeps_queues: bool
) -> Plan:
    """Sizes and switches. is_flat: priorities come from recomputes; the loop itself then refreshes nothing."""
    n_nodes = len(nodes.first)
    refreshes = not is_flat and len(paths.groups) > 0
    return Plan(
        sites=len(scenario.sites),
        queues=n_queues,
        nodes=n_nodes,
        width=n_nodes + (n_queues if keeps_queues else 0),
        stride=n_nodes if is_flat else 0,
        local_approach=scenario.local_approach,
        global_approach=scenario.global_approach,
        refresh_s=scenario.global_refresh_s if refreshes else 0.0,
        delay_s=scenario.noise.delay_s,
        backfills=scenario.backfill,
    )


def empty_state(scenario: Scenario, workload: Workload, plan: Plan) -> State:
    """Everything that changes, before anything has happened."""
    cpus = np.array([site.cpus for site in scenario.sites], dtype=np.int64)
    n_jobs, n_places = len(workload.jobs.place), plan.sites * plan.queues
    most_running = min(int(cpus.sum()), n_jobs)
    sent = np.bincount(workload.jobs.place // max(plan.queues, 1), minlength=plan.sites)
    most_busy = np.minimum(cpus, sent) if plan.backfills else np.zeros_like(cpus)
    told = 2 * n_jobs if plan.delay_s > 0 else 0
    head = np.searchsorted(workload.jobs.place, np.arange(n_places)).astype(np.int64)
    return State(
        queues=Queues(head, head.copy(), _whole(plan.sites * plan.nodes)),
        books=Books(
            np.zeros(plan.sites * plan.width),
            np.zeros(plan.sites * plan.width),
            np.zeros(plan.queues),
            np.zeros(plan.queues),
        ),
        sheet=Sheet(
            np.zeros(max(plan.nodes, plan.sites * plan.stride)),
            np.zeros(plan.nodes),
            _whole(2 * plan.nodes),
            np.zeros(2 * plan.nodes),
        ),
        machines=Machines(cpus, np.full(n_jobs, PENDING), np.zeros(most_running), _whole(most_running)),
        busy=Busy(
            first=(np.cumsum(most_busy) - most_busy).astype(np.int64),
            count=_whole(plan.sites),
            job=_whole(int(most_busy.sum())),
            seat=_whole(n_jobs if plan.backfills else 0),
            hidden=_whole(plan.queues),
        ),
        told=Told(np.zeros(told), _whole(told)),
        counters=_whole(N_COUNTERS),
    )


def _whole(n: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.zeros(n, dtype=np.int64)
