"""The tree of those who compete at a site, as the loop walks it, and the rule that compares them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apps.engine.algorithms.gridwide import TIE_POINTS
from apps.engine.algorithms.inputs import prepare
from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.operators import DEFAULT_K, get_operator
from apps.engine.parameters import Settings
from apps.engine.simulation import next_job
from apps.engine.simulation.columns import Nodes, Paths, Rule
from apps.engine.simulation.scenario import Scenario

_KINDS = {
    "absolute": next_job.ABSOLUTE,
    "relative": next_job.RELATIVE,
    "sigmoid": next_job.SIGMOID,
    "slurm": next_job.SLURM,
    "combined": next_job.COMBINED,
}
_FAMILIES = {"relative": next_job.RELATIVE_N, "sigmoid": next_job.SIGMOID_N}


def rule_of(settings: Settings, coarse: int) -> Rule:
    """How this algorithm makes a component of target and actual."""
    if settings["name"] == "gridwide":
        return _rule(next_job.GRIDWIDE, coarse=coarse, tie=TIE_POINTS, pad=0.0)
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
    """Components are given: the negative ranks of a recompute."""
    return _rule(next_job.GRIDWIDE)


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


def nodes_of(scenario: Scenario, entries: IntArray, *, keeps_queues: bool) -> tuple[Nodes, Paths]:
    """The competing entries, and below them a seat for each queue that has no component of its own.

    Those are queues of entries whose shares are *inherit*, and of groups that run jobs themselves: their vector is
    that of the entry they sit with. keeps_queues: usage at a site is also booked by queue, in slots behind the nodes.
    """
    prepared = prepare(scenario.policy.tree)
    contest, entry_of, seat = prepared.contest, prepared.entry, prepared.seat
    n = contest.n_entries
    own_node = {int(entry_of[node]): node for node in range(n) if not contest.is_group[node]}
    sitting = [int(seat[entry]) for entry in entries if int(entry) not in own_node]
    parent = [*contest.parent.tolist(), *sitting]
    order = _breadth_first(parent)
    position = {node: place for place, node in enumerate(order)}
    seats = iter(range(n, len(parent)))
    queue_nodes = [position[own_node[e] if e in own_node else next(seats)] for e in entries.tolist()]
    is_seat = np.array(order) >= n
    inner = np.minimum(order, n - 1)
    tables = _Tables(
        parent=[-1, *(position[parent[node]] for node in order[1:])],
        is_seat=is_seat,
        is_shared=~is_seat & scenario.scope_is_global[entry_of[inner]],
        target=np.where(is_seat, 0.0, prepared.target[inner]),
    )
    return _nodes(tables, queue_nodes, keeps_queues=keeps_queues)


def flat_nodes(n_queues: int) -> tuple[Nodes, Paths]:
    """All queues below one root, compared by the components they are given."""
    tables = _Tables(
        parent=[-1] + [0] * n_queues,
        is_seat=np.zeros(n_queues + 1, dtype=np.bool_),
        is_shared=np.arange(n_queues + 1) == 0,
        target=np.zeros(n_queues + 1),
    )
    return _nodes(tables, list(range(1, n_queues + 1)), keeps_queues=True)


class _Tables(NamedTuple):
    """Nodes in breadth-first order."""

    parent: list[int]
    is_seat: BoolArray
    is_shared: BoolArray
    target: FloatArray


def _nodes(tables: _Tables, queue_nodes: list[int], *, keeps_queues: bool) -> tuple[Nodes, Paths]:
    parent = np.array(tables.parent, dtype=np.int64)
    n = len(parent)
    count = np.bincount(parent[1:], minlength=n).astype(np.int64)
    queue = np.full(n, -1, dtype=np.int64)
    queue[queue_nodes] = np.arange(len(queue_nodes))
    climbs = [_climb(node, tables.parent) for node in queue_nodes]
    counted = [[node for node in climb[:-1] if not tables.is_seat[node]] for climb in climbs]
    booked = [[node for node in path if not tables.is_shared[parent[node]]] for path in counted]
    pooled = [[node for node in path if tables.is_shared[parent[node]]] for path in counted]
    if keeps_queues:
        booked = [[*path, n + number] for number, path in enumerate(booked)]
    is_group_shared = tables.is_shared & (count > 0)
    nodes = Nodes(1 + np.cumsum(count) - count, count, tables.target, tables.is_shared, tables.is_seat, queue)
    groups = np.flatnonzero(is_group_shared).astype(np.int64)
    return nodes, Paths(*_runs(climbs), *_runs(booked), *_runs(pooled), groups)


def _breadth_first(parent: list[int]) -> list[int]:
    """Nodes level by level, siblings side by side."""
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
    """(where each list begins, and the end; all of them one after the other)."""
    first = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    return first, np.array([number for each in lists for number in each], dtype=np.int64)
