"""Random cases against slow twins in exact fractions and long decimals; differences are listed with their case.

.venv/bin/python -m tests.engine.numerics.exact_twins --cases 20000 --seed 1 aequus flux
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from apps.engine.cases import solve
from tests.engine.random_cases import ALGORITHMS, permuted, random_case, renamed
from tests.oracles.algorithms import TWINS, Nodes, agrees


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
    """Of every entry each value of the twin that isn't found."""
    if nodes.keys() != twin.keys():
        yield f"entries {sorted(nodes.keys() ^ twin.keys())}"
        return
    for path, expected in twin.items():
        for name, wanted in expected.items():
            found = nodes[path][name]
            if not agrees(name, found, wanted):
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
