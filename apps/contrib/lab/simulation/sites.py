"""Simulated sites: their competing tree, the state before the first event, and the usage data that they see."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from apps.contrib.lab.simulation import kinds
from apps.contrib.lab.simulation.columns import (
    N_COUNTERS,
    PENDING,
    PREDICTIVE,
    Busy,
    Column,
    Components,
    DelayedReports,
    Jobs,
    Machines,
    Nodes,
    Paths,
    Plan,
    Queues,
    Rule,
    State,
    UsageSums,
)
from apps.contrib.lab.simulation.scenario import Scenario
from apps.contrib.lab.simulation.workload import Workload
from apps.engine import sweep
from apps.engine.algorithms import compute
from apps.engine.algorithms.gridwide import TIE_POINTS
from apps.engine.algorithms.inputs import prepare
from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.decay import Window, bucket_weights
from apps.engine.decay_functions import BUCKET_S
from apps.engine.errors import BadCase
from apps.engine.operators import DEFAULT_K, get_operator
from apps.engine.parameters import Settings
from apps.engine.tree import FairshareTree

_KINDS = {
    "absolute": kinds.ABSOLUTE,
    "relative": kinds.RELATIVE,
    "sigmoid": kinds.SIGMOID,
    "slurm": kinds.SLURM,
    "combined": kinds.COMBINED,
}
_FAMILIES = {"relative": kinds.RELATIVE_N, "sigmoid": kinds.SIGMOID_N}
MOST_SIMULATED_BUCKETS = 20_000_000
MOST_WEIGHINGS = 20_000_000_000  # buckets × steps
_LAST = -1e15
FEW_WEIGHINGS = 1_000_000_000  # of `Aging`; with more, only hours with usage are kept


def rule_of(settings: Settings, coarse: int) -> Rule:
    """The rule by which this algorithm computes a component from target and actual."""
    if settings["name"] == "gridwide":
        return _rule(kinds.GRIDWIDE, coarse=coarse, tie=TIE_POINTS, pad=0.0)
    operator = get_operator(settings["operator"], k=settings.get("k", DEFAULT_K))
    exponent = float(operator.parameters.get("n", 1.0))
    family = operator.name.partition("-")[0]
    kind = _FAMILIES[family] if "n" in operator.parameters else _KINDS[family]
    resolution = settings["resolution"]
    return _rule(
        kind,
        exponent=exponent,
        mix=float(operator.parameters.get("k", 0.0)),
        resolution=float(resolution),
        coarse=coarse,
        pad=float(resolution // 2),
    )


def flat_rule() -> Rule:
    """The rule where components are given: they are negative ranks of a recompute."""
    return _rule(kinds.GRIDWIDE)


def _rule(
    kind: int,
    *,
    exponent: float = 1.0,
    mix: float = 0.0,
    resolution: float = 1.0,
    coarse: int = 0,
    tie: float = 0.0,
    pad: float = 0.0,
) -> Rule:
    return Rule(kind, exponent, mix, 2.0, resolution, float(coarse), tie, pad)


def nodes_of(scenario: Scenario, entries: IntArray, *, books_queues: bool) -> tuple[Nodes, Paths]:
    """The competing entries, and below them a padding node for each queue that has no component.

    Such are the queues of entries whose shares are *inherit*, and of groups that run jobs themselves: their vector is
    that of their seat. books_queues: usage at a site is also booked by queue, in slots behind the nodes.
    """
    prepared = prepare(scenario.policy.tree)
    contest, entry_of, seat = prepared.contest, prepared.entry, prepared.seat
    n = contest.n_entries
    own_node = {int(entry_of[node]): node for node in range(n) if not contest.is_group[node]}
    padding_parents = [int(seat[entry]) for entry in entries if int(entry) not in own_node]
    parent = [*contest.parent.tolist(), *padding_parents]
    order = _breadth_first(parent)
    position = {node: index for index, node in enumerate(order)}
    padding_nodes = iter(range(n, len(parent)))
    queue_nodes = [position[own_node[e] if e in own_node else next(padding_nodes)] for e in entries.tolist()]
    is_padding = np.array(order) >= n
    inner = np.minimum(order, n - 1)
    tables = _Tables(
        parent=[-1, *(position[parent[node]] for node in order[1:])],
        is_padding=is_padding,
        is_shared=~is_padding & scenario.scope_is_global[entry_of[inner]],
        target=np.where(is_padding, 0.0, prepared.target[inner]),
    )
    return _nodes(tables, queue_nodes, books_queues=books_queues)


def flat_nodes(n_queues: int) -> tuple[Nodes, Paths]:
    """All queues below one root, compared by given components."""
    tables = _Tables(
        parent=[-1] + [0] * n_queues,
        is_padding=np.zeros(n_queues + 1, dtype=np.bool_),
        is_shared=np.arange(n_queues + 1) == 0,
        target=np.zeros(n_queues + 1),
    )
    return _nodes(tables, list(range(1, n_queues + 1)), books_queues=True)


class _Tables(NamedTuple):
    """Nodes in breadth-first order."""

    parent: list[int]
    is_padding: BoolArray
    is_shared: BoolArray
    target: FloatArray


def _nodes(tables: _Tables, queue_nodes: list[int], *, books_queues: bool) -> tuple[Nodes, Paths]:
    parent = np.array(tables.parent, dtype=np.int64)
    n = len(parent)
    count = np.bincount(parent[1:], minlength=n).astype(np.int64)
    queue = np.full(n, -1, dtype=np.int64)
    queue[queue_nodes] = np.arange(len(queue_nodes))
    climbs = [_climb(node, tables.parent) for node in queue_nodes]
    counted = [[node for node in climb[:-1] if not tables.is_padding[node]] for climb in climbs]
    booked = [[node for node in path if not tables.is_shared[parent[node]]] for path in counted]
    pooled = [[node for node in path if tables.is_shared[parent[node]]] for path in counted]
    if books_queues:
        booked = [[*path, n + number] for number, path in enumerate(booked)]
    is_group_shared = tables.is_shared & (count > 0)
    nodes = Nodes(1 + np.cumsum(count) - count, count, tables.target, tables.is_shared, tables.is_padding, queue)
    groups = np.flatnonzero(is_group_shared).astype(np.int64)
    return nodes, Paths(*_runs(climbs), *_runs(booked), *_runs(pooled), groups)


def _breadth_first(parent: list[int]) -> list[int]:
    """Nodes level by level; siblings are adjacent."""
    children: list[list[int]] = [[] for _ in parent]
    for node in range(1, len(parent)):
        children[parent[node]].append(node)
    order = [0]
    for node in order:
        order += children[node]
    return order


def _climb(node: int, parent: list[int]) -> list[int]:
    """From the node to the root, both included."""
    path = [node]
    while parent[path[-1]] >= 0:
        path.append(parent[path[-1]])
    return path


def _runs(lists: list[list[int]]) -> tuple[IntArray, IntArray]:
    """(first index of each list and the end, concatenated lists)."""
    first = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    return first, np.array([number for each in lists for number in each], dtype=np.int64)


def plan_of(
    scenario: Scenario, n_queues: int, nodes: Nodes, paths: Paths, *, is_flat: bool, books_queues: bool
) -> Plan:
    """Sizes and switches. is_flat: priorities come from recomputes, and the loop itself refreshes nothing."""
    n_nodes = len(nodes.first)
    refreshes = not is_flat and len(paths.groups) > 0
    return Plan(
        sites=len(scenario.sites),
        queues=n_queues,
        nodes=n_nodes,
        width=n_nodes + (n_queues if books_queues else 0),
        stride=n_nodes if is_flat else 0,
        local_approach=scenario.local_approach,
        global_approach=scenario.global_approach,
        refresh_s=scenario.global_refresh_s if refreshes else 0.0,
        delay_s=scenario.noise.delay_s,
        backfills=scenario.backfill,
        most_tried=scenario.most_tried,
    )


def empty_state(scenario: Scenario, workload: Workload, plan: Plan) -> State:
    """The state before the first event."""
    cpus = np.array([site.cpus for site in scenario.sites], dtype=np.int64)
    n_jobs, n_site_queues = len(workload.jobs.site_queue), plan.sites * plan.queues
    most_running = min(int(cpus.sum()), n_jobs)
    sent = np.bincount(workload.jobs.site_queue // max(plan.queues, 1), minlength=plan.sites)
    most_busy = np.minimum(cpus, sent) if plan.backfills else np.zeros_like(cpus)
    n_reports = 2 * n_jobs if plan.delay_s > 0 else 0
    head = np.searchsorted(workload.jobs.site_queue, np.arange(n_site_queues)).astype(np.int64)
    return State(
        queues=Queues(head, head.copy(), _zero_counts(plan.sites * plan.nodes)),
        usage_sums=UsageSums(
            np.zeros(plan.sites * plan.width),
            np.zeros(plan.sites * plan.width),
            np.zeros(plan.queues),
            np.zeros(plan.queues),
        ),
        components=Components(
            np.zeros(max(plan.nodes, plan.sites * plan.stride)),
            np.zeros(plan.nodes),
            _zero_counts(2 * plan.nodes),
            np.zeros(2 * plan.nodes),
        ),
        machines=Machines(cpus, np.full(n_jobs, PENDING), np.zeros(most_running), _zero_counts(most_running)),
        busy=Busy(
            first=(np.cumsum(most_busy) - most_busy).astype(np.int64),
            count=_zero_counts(plan.sites),
            job=_zero_counts(int(most_busy.sum())),
            offset=_zero_counts(n_jobs if plan.backfills else 0),
            hidden=_zero_counts(plan.queues),
        ),
        delayed=DelayedReports(np.zeros(n_reports), _zero_counts(n_reports)),
        counters=_zero_counts(N_COUNTERS),
    )


def _zero_counts(n: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.zeros(n, dtype=np.int64)


def ages(window: Window) -> bool:
    """Whether usage loses weight with its age."""
    return window.aging != "none" or window.length_s is not None


def is_long(scenario: Scenario, n_queues: int) -> bool:
    """Whether `LongAging` is for this scenario: there is usage before the start, or `Aging` would weigh too much."""
    hours = int(np.ceil(scenario.end_s / BUCKET_S)) + 1
    cells = (len(scenario.sites) + 1) * n_queues * hours
    return scenario.past is not None or cells * scenario.end_s / scenario.aging_step_s > FEW_WEIGHINGS


def put(column: Column, values: FloatArray) -> None:
    """Overwrite all elements of a list or an array."""
    column[:] = values.tolist() if isinstance(column, list) else values


class Views:
    """Usage by site and queue, read from the state of the loop: one row a site, then one for all sites."""

    def __init__(self, scenario: Scenario, entries: IntArray, jobs: Jobs, paths: Paths, plan: Plan, state: State):
        self.scenario, self.entries, self.jobs, self.plan, self.state = scenario, entries, jobs, plan, state
        self.approach = [plan.local_approach] * plan.sites + [plan.global_approach]
        self.slot = paths.booked
        self.queue_of_slot = np.repeat(np.arange(plan.queues), np.diff(paths.booked_first))

    def seen_s(self, now_s: float) -> float:
        """The instant up to which usage data is known."""
        return max(0.0, now_s - self.scenario.noise.delay_s)

    def usage(self, seen_s: float) -> FloatArray:
        """(sites + 1, queues), ≥ 0."""
        base, rate = self._lines()
        return np.maximum(0.0, base + rate * seen_s)

    def _lines(self) -> tuple[FloatArray, FloatArray]:
        usage_sums = self.state.usage_sums
        lines = []
        for local, pooled in ((usage_sums.base, usage_sums.pooled_base), (usage_sums.rate, usage_sums.pooled_rate)):
            by_slot = np.asarray(local, dtype=np.float64).reshape(self.plan.sites, self.plan.width)
            lines.append(np.vstack([by_slot[:, self.plan.nodes :], np.asarray(pooled, dtype=np.float64)]))
        return lines[0], lines[1]

    def by_slot(self, usage: FloatArray) -> FloatArray:
        """Usage by queue, (sites, queues), summed up by slot of each site, (sites · width,)."""
        width = self.plan.width
        rows = [np.bincount(self.slot, values[self.queue_of_slot], minlength=width) for values in usage]
        return np.concatenate(rows) if rows else np.zeros(0)

    def _requested(self, seen_s: float) -> FloatArray:
        """Requested time of running jobs, where the approach is predictive, (sites + 1, queues)."""
        demand = np.zeros((self.plan.sites + 1, self.plan.queues))
        if PREDICTIVE not in self.approach:
            return demand
        started_s = np.asarray(self.state.machines.started_s)
        runs = np.flatnonzero((started_s >= 0) & (started_s <= seen_s) & (started_s + self.jobs.run_s > seen_s))
        amount = self.jobs.counted[runs] * self.jobs.requested_s[runs]
        by_site_queue = np.bincount(self.jobs.site_queue[runs], amount, minlength=self.plan.sites * self.plan.queues)
        demand[:-1] = by_site_queue.reshape(self.plan.sites, self.plan.queues)
        demand[-1] = demand[:-1].sum(axis=0)
        demand[np.array(self.approach) != PREDICTIVE] = 0.0
        return demand


class Aging(Views):
    """Usage in hourly buckets by the time of booking, reweighted at every step.

    Elapsed time is booked as it passes, completed jobs when they end. Requested time of running jobs has no age.
    """

    def __init__(self, scenario: Scenario, entries: IntArray, jobs: Jobs, paths: Paths, plan: Plan, state: State):
        super().__init__(scenario, entries, jobs, paths, plan, state)
        hours = int(np.ceil(scenario.end_s / BUCKET_S)) + 1
        size = (plan.sites + 1) * plan.queues * hours
        weighings = size * scenario.end_s / scenario.aging_step_s
        if size > MOST_SIMULATED_BUCKETS or weighings > MOST_WEIGHINGS:
            raise BadCase(
                f"{plan.sites} sites, {plan.queues} entries and {hours} hours are {size:.3g} buckets, weighted "
                f"{weighings / size:.3g} times; fewer hours are simulated with aging",
                place="usage.window",
            )
        self.buckets = np.zeros((plan.sites + 1, plan.queues, hours))
        self.hour_start_s = BUCKET_S * np.arange(hours, dtype=np.float64)
        self.aged = np.zeros((plan.sites + 1, plan.queues))
        self.last_s = 0.0

    def step(self, now_s: float) -> None:
        """Add usage since the last step to its hours, and set usage to the weighted sum of all hours."""
        seen_s = self.seen_s(now_s)
        base, rate = self._lines()
        requested = self._requested(seen_s)
        self._book(np.maximum(0.0, base + rate * seen_s - requested - self.aged), seen_s)
        origin_s = self.scenario.origin_s
        weight = bucket_weights(self.hour_start_s + origin_s, seen_s + origin_s, self.scenario.window)
        self.aged = np.einsum("rqh,h->rq", self.buckets, weight)
        self.last_s = seen_s
        base = self.aged + requested - rate * seen_s
        put(self.state.usage_sums.base, self.by_slot(base[:-1]))
        put(self.state.usage_sums.pooled_base, base[-1])

    def _book(self, amount: FloatArray, seen_s: float) -> None:
        """Divide the amount among the hours since the last step in proportion to time; a step is below an hour."""
        first, last = int(self.last_s // BUCKET_S), int(seen_s // BUCKET_S)
        late = (seen_s - last * BUCKET_S) / (seen_s - self.last_s) if last > first else 0.0
        self.buckets[:, :, first] += amount * (1.0 - late)
        self.buckets[:, :, last] += amount * late


class Recompute(Views):
    """Priorities of all entries, recomputed by the engine at each step and valid until the next."""

    def __init__(self, scenario: Scenario, entries: IntArray, jobs: Jobs, paths: Paths, plan: Plan, state: State):
        super().__init__(scenario, entries, jobs, paths, plan, state)
        tree = scenario.policy.tree
        is_user = tree.is_user.copy()
        is_user[entries[~tree.is_group[entries]]] = True  # for algorithms that rank users alone
        self.tree = replace(tree, is_user=is_user)
        self.scope = scenario.scope_is_global.astype(np.int64)
        self.is_same_everywhere = bool(scenario.scope_is_global[tree.child_count > 0].all())
        self.pooled = np.zeros(plan.queues)

    def refresh(self, now_s: float) -> None:
        """Update the usage over all sites."""
        self.pooled = self.usage(self.seen_s(now_s))[-1]

    def step(self, now_s: float) -> None:
        """Rank all queues at every site; a queue's component is its negative rank, or `_LAST` without a rank."""
        usage = self.usage(self.seen_s(now_s))
        component = np.zeros((self.plan.sites, self.plan.nodes))
        for site in range(1 if self.is_same_everywhere else self.plan.sites):
            rank = self._rank(usage[site])[self.entries]
            component[site, 1:] = np.where(rank > 0, -rank.astype(np.float64), _LAST)
        if self.is_same_everywhere:
            component[1:] = component[0]
        put(self.state.components.component, component.reshape(-1))

    def _rank(self, local: FloatArray) -> IntArray:
        usage = np.zeros((2, self.tree.n_entries))
        usage[0, self.entries], usage[1, self.entries] = local, self.pooled
        if self.scenario.noise.resolution:
            usage = np.stack([coarse(self.tree, row, self.scenario.noise.resolution) for row in usage])
        assert self.scenario.algorithm is not None  # noqa: S101 - not called for SAM's queue
        result = compute(self.tree, usage, algorithm=self.scenario.algorithm, scope_of_entry=self.scope)
        return result.rank


def coarse(tree: FairshareTree, own: FloatArray, resolution: int) -> FloatArray:
    """Usage with shares among siblings rounded to steps of 1/resolution; own usage of groups is omitted."""
    total, child_sum = sweep.sum_up(tree, own)
    share = np.floor(sweep.divide_by_group(tree, total, child_sum) * resolution + 0.5) / resolution
    share[0] = total[0]
    known = sweep.product_down(tree, share) * total[0]
    return np.where(tree.child_count > 0, 0.0, known)
