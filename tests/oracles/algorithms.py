"""The slow twin of each tree algorithm by its name, and when a number of the product agrees with that of a twin."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tests.oracles import engine as oracles
from tests.oracles import slurm_classic as oracles_classic
from tests.oracles import slurm_fair_tree as oracles_fair_tree

_NEAR = 1e-9
_TIE_POINTS = Fraction(1, 10**9) + Fraction(1, 10**12)
Case = dict[str, Any]
Nodes = dict[str, dict[str, Any]]


def aequus(case: Case) -> Nodes:
    """Vectors, ranks and factors by the definition, from exact targets and actuals."""
    settings, entries = case["algorithm"], list(oracles.read(case).walk())
    r, is_last = settings["resolution"], settings.get("zero_shares") == "last"
    priority: dict[str, float] = {}
    component: dict[str, int] = {}
    for entry in entries:
        if entry.target is None or entry.actual is None:
            continue
        p = oracles.operator(settings["operator"], entry.target, entry.actual, settings.get("k", 0.5))
        priority[entry.path] = p if entry.target or not is_last else -1.0
        found = oracles.scalar(p, r)
        component[entry.path] = found if not is_last else max(1, found) if entry.target else 0
    vectors = {entry.path: [component[path] for path in entry.seat] for entry in entries}
    ranked = {entry.path for entry in entries if entry.is_ranked}
    ranks = oracles.ranks_of_vectors(vectors, ranked, r)
    nodes = _ranked_nodes(entries, ranks, len(ranked))
    depth = max((len(vectors[path]) for path in ranked), default=0)
    for entry in entries:
        nodes[entry.path]["vector"] = vectors[entry.path]
        if not settings["operator"].startswith("sigmoid-"):  # whose slope has no bound on target
            nodes[entry.path]["priority"] = priority.get(entry.path)
        if settings.get("factor_from") == "key" and nodes[entry.path]["rank"] is not None:
            full = oracles.padded(vectors[entry.path], depth, r // 2)
            key = sum((Fraction(number, r**level) for level, number in enumerate(full, start=1)), Fraction(0))
            nodes[entry.path]["factor"] = float(key)
    return nodes


def gridwide(case: Case) -> Nodes:
    """Exact deviations, level by level, and their number in base 200."""
    entries = list(oracles.read(case).walk())
    own = {each.path: oracles.deviation(each.target, each.actual) for each in entries if each.target is not None}
    tuples = {entry.path: [own[path] for path in entry.seat] for entry in entries}
    ranked = {entry.path for entry in entries if entry.is_ranked}
    nodes = _ranked_nodes(entries, oracles.ranks_of_numbers(tuples, ranked, _TIE_POINTS), len(ranked))
    for path, points in own.items():
        nodes[path]["priority"] = float(points)
    depth = max((len(tuples[path]) for path in ranked), default=0)
    for path in ranked:
        digits = oracles.padded([oracles.whole_points(points) for points in tuples[path]], depth, 0)
        value = sum((digit + 100) * 200 ** (depth - level) for level, digit in enumerate(digits, start=1))
        nodes[path]["value"] = str(value)
    return nodes


def _ranked_nodes(entries: list[oracles.Entry], ranks: dict[str, int], n_ranked: int) -> Nodes:
    """Target, actual, rank and factor; no rank where no ranked leaf is below."""
    nodes: Nodes = {}
    for entry in entries:
        rank = ranks[entry.path] if any(each.is_ranked for each in (entry, *entry.walk())) else None
        factor = None if rank is None else float(max(1 - Fraction(rank - 1, n_ranked), Fraction(1, n_ranked)))
        numbers = {"target": _number(entry.target), "actual": _number(entry.actual)}
        nodes[entry.path] = {**numbers, "rank": rank, "factor": factor}
    return nodes


def _number(exact: Fraction | None) -> float | None:
    return None if exact is None else float(exact)


TWINS: dict[str, Callable[[Case], Nodes]] = {
    "aequus": aequus,
    "gridwide": gridwide,
    "slurm-fair-tree": oracles_fair_tree.slurm,
    "slurm-classic": oracles_classic.solve,
    "slurm-depth-oblivious": oracles_classic.solve,
    "flux": oracles_fair_tree.flux,
}


def served(case: Case) -> Nodes:
    """Of every entry the numbers of its algorithm, with usage below it, its share of all, and its path's priorities."""
    name, nodes = case["algorithm"]["name"], TWINS[case["algorithm"]["name"]](case)
    entries = list(oracles.read(case).walk())
    by_path = {entry.path: entry for entry in entries}
    for entry in entries:
        node = nodes[entry.path]
        of_all = math.prod((by_path[path].target or Fraction(0) for path in entry.seat), start=Fraction(1))
        node |= {"usage": float(entry.total), "target": _number(entry.target), "actual": _number(entry.actual)}
        node["target_global"] = None if entry.target is None else float(of_all)
        if name == "slurm-fair-tree" and entry.actual is not None:  # of all usage of the account, its own included
            node["actual"] = node["effective_usage"]
        if name in _PRIORITIES:
            node["priority"] = None if entry.target is None else _PRIORITIES[name](node)
    for entry in entries:
        along = [nodes[path].get("priority") for path in entry.seat]
        if None not in along:
            nodes[entry.path]["priorities"] = along
    return nodes


def _by_level(node: dict[str, Any]) -> float:
    shares, used = node["norm_shares"], node["effective_usage"]
    return float((shares - used) / (shares + used)) if shares else -1.0


def _by_weight(node: dict[str, Any]) -> float:
    """Not by shares and usage: usage less than flux's smallest is none."""
    return float((node["weight"] - 1) / (node["weight"] + 1))


def _by_ratio(node: dict[str, Any]) -> float:
    shares = node["norm_shares"]
    return float(2.0 ** (1.0 - node["effective_usage"] / shares) - 1.0) if shares else -1.0


_PRIORITIES: dict[str, Callable[[dict[str, Any]], float]] = {
    "slurm-fair-tree": _by_level,
    "slurm-classic": _by_ratio,
    "slurm-depth-oblivious": _by_ratio,
    "flux": _by_weight,
}


def agrees(name: str, found: Any, wanted: Any) -> bool:
    """Ranks, vectors and values are the same; other numbers near: by 1e-9 of themselves.

    A priority is a difference: where it is next to 0, its last digits depend on the order of sums.
    """
    if name == "priorities":
        return len(found) == len(wanted) and all(map(agrees, ["priority"] * len(found), found, wanted))
    if not (isinstance(wanted, float) and isinstance(found, float)):
        return bool(found == wanted)
    return found == wanted or abs(found - wanted) <= max(_NEAR * abs(wanted), 1e-12 if name == "priority" else 1e-300)
