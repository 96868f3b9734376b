"""Sites before the first event: plan, empty queues, free processors, no usage."""

from __future__ import annotations

import numpy as np

from apps.engine.simulation.columns import N_COUNTERS, PENDING, Nodes, Plan, State
from apps.engine.simulation.scenario import Scenario
from apps.engine.simulation.workload import Workload


def plan_of(scenario: Scenario, n_queues: int, nodes: Nodes, *, is_flat: bool, keeps_queues: bool) -> Plan:
    """Sizes and switches. is_flat: priorities come from recomputes; the loop itself then refreshes nothing."""
    n_nodes = len(nodes.first)
    refreshes = not is_flat and len(nodes.groups) > 0
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
    most_busy = np.minimum(cpus, n_jobs) if plan.backfills else np.zeros_like(cpus)
    seats = n_jobs if plan.backfills else 0
    told = 2 * n_jobs if plan.delay_s > 0 else 0
    head = np.searchsorted(workload.jobs.place, np.arange(n_places)).astype(np.int64)
    return State(
        free=cpus,
        head=head,
        tail=head.copy(),
        alive=_whole(plan.sites * plan.nodes),
        base=np.zeros(plan.sites * plan.width),
        rate=np.zeros(plan.sites * plan.width),
        pooled_base=np.zeros(plan.queues),
        pooled_rate=np.zeros(plan.queues),
        pooled_total=np.zeros(plan.nodes),
        component=np.zeros(max(plan.nodes, plan.sites * plan.stride)),
        measured=np.zeros(plan.nodes),
        front=_whole(2 * plan.nodes),
        front_value=np.zeros(2 * plan.nodes),
        hidden=_whole(plan.queues),
        started_s=np.full(n_jobs, PENDING),
        running_end_s=np.zeros(most_running),
        running_job=_whole(most_running),
        busy_first=(np.cumsum(most_busy) - most_busy).astype(np.int64),
        n_busy=_whole(plan.sites),
        busy=_whole(int(most_busy.sum())),
        seat=_whole(seats),
        due_s=np.zeros(int(most_busy.max())),
        due_cpus=_whole(int(most_busy.max())),
        told_s=np.zeros(told),
        told_job=_whole(told),
        counters=_whole(N_COUNTERS),
    )


def _whole(n: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.zeros(n, dtype=np.int64)
