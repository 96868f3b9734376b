"""Random cases against slow twins in exact fractions and long decimals; differences are listed with their case.

.venv/bin/python -m tests.engine.numerics.exact_twins --cases 20000 --seed 1 aequus flux
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from apps.engine.cases import solve
from tests.engine.random_cases import ALGORITHMS, Case, permuted, random_case, renamed
from tests.oracles import engine as oracles
from tests.oracles import slurm_classic as oracles_classic
from tests.oracles import slurm_fair_tree as oracles_fair_tree

_NEAR = 1e-9
_TIE_POINTS = Fraction(1, 10**9) + Fraction(1, 10**12)
Nodes = dict[str, dict[str, Any]]


def aequus(case: Case) -> Nodes:
    """Vectors, ranks and factors by the definition, from exact targets and actuals."""
    settings, entries = case["algorithm"], list(oracles.read(case).walk())
    r, is_last = settings["resolution"], settings.get("zero_shares") == "last"
    component: dict[str, int] = {}
    for entry in entries:
        if entry.target is None or entry.actual is None:
            continue
        p = oracles.operator(settings["operator"], entry.target, entry.actual, settings.get("k", 0.5))
        found = oracles.scalar(p, r)
        component[entry.path] = found if not is_last else max(1, found) if entry.target else 0
    vectors = {entry.path: [component[path] for path in entry.seat] for entry in entries}
    ranked = {entry.path for entry in entries if entry.is_ranked}
    ranks = oracles.ranks_of_vectors(vectors, ranked, r)
    nodes = _ranked_nodes(entries, ranks, len(ranked))
    depth = max((len(vectors[path]) for path in ranked), default=0)
    for entry in entries:
        nodes[entry.path]["vector"] = vectors[entry.path]
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


def differences(algorithm: str, *, first: int, n: int) -> Iterator[str]:
    """What differs in n cases from this number on: from the twin, when siblings are permuted, when all are renamed."""
    for seed in range(first, first + n):
        case = random_case(algorithm, seed)
        nodes = solve(case)["nodes"]
        for problem in between(nodes, TWINS[algorithm](case)):
            yield f"{case['id']}: {problem}"
        again, paths = renamed(case, seed)
        found = solve(again)["nodes"]
        if {paths[path]: node for path, node in nodes.items()} != found:
            yield f"{case['id']}: other names give other numbers"
        if case["algorithm"].get("ties") != "as-slurm":
            for problem in between(solve(permuted(case, seed))["nodes"], nodes):
                yield f"{case['id']}, siblings permuted: {problem}"


def between(nodes: Nodes, twin: Nodes) -> Iterator[str]:
    """Ranks, vectors and values are the same; other numbers near: by 1e-9 of themselves.

    A priority is a difference: where it is next to 0, its last digits depend on the order of sums.
    """
    if nodes.keys() != twin.keys():
        yield f"entries {sorted(nodes.keys() ^ twin.keys())}"
        return
    for path, expected in twin.items():
        for name, wanted in expected.items():
            found = nodes[path][name]
            is_number = isinstance(wanted, float) and isinstance(found, float)
            near = max(_NEAR * abs(wanted), 1e-12 if name == "priority" else 1e-300) if is_number else 0.0
            if found != wanted and not (is_number and abs(found - wanted) <= near):
                yield f"{path} has {name} {found!r} instead of {wanted!r}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("algorithms", nargs="*", metavar="ALGORITHM", help=f"of {', '.join(ALGORITHMS)}; all if none")
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    n_wrong = 0
    for algorithm in asked.algorithms or ALGORITHMS:
        found = list(differences(algorithm, first=asked.seed * 1_000_000, n=asked.cases))
        n_wrong += len(found)
        print(f"{algorithm}: {asked.cases} cases, {len(found)} differences", *found[:10], sep="\n  ", flush=True)
    raise SystemExit(1 if n_wrong else 0)


if __name__ == "__main__":
    main()
