"""Cases of `compute` made to be hard: ties at every level, zeros, extremes, unbalanced depth, any resolution.

Deterministic for seed and number. Amounts are whole numbers or decimals, so that exact twins can add them up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

ALGORITHMS = ("aequus", "gridwide", "slurm-fair-tree", "slurm-classic", "slurm-depth-oblivious", "flux")
RESOLUTIONS = (2, 3, 4, 5, 7, 9, 10, 16, 99, 100, 1000, 10_000)
_WITH_PARENT = ("aequus", "gridwide", "slurm-fair-tree", "slurm-classic", "slurm-depth-oblivious")
_EASILY_DIVIDED = (5040, 10_080, 55_440, 720_720)
# Slurm's shares are whole numbers; flux adds usage up in doubles, where decimals tie by chance.
_WHOLE_SHARES, _WHOLE_USAGE = ("slurm-fair-tree",), ("flux",)
_MOST_ENTRIES = 40
Case = dict[str, Any]


def random_case(algorithm: str, seed: int) -> Case:
    """One case of this algorithm with parameters of its own."""
    draw = Random(f"{algorithm} {seed}")
    maker = _Maker(draw, algorithm)
    root = {"name": "root", "shares": 1, "children": maker.children(0, draw.choice((2, 3, 3, 4, 9)))}
    maker.use(root, "", draw.choice(_EASILY_DIVIDED) * draw.choice((1, 1, 7, 1000)))
    settings = {"name": algorithm, **_parameters(draw, algorithm)}
    return {"id": f"{algorithm}-{seed}", "algorithm": settings, "policy": root, "usage": maker.usage}


def permuted(case: Case, seed: int) -> Case:
    """The case with siblings in another order."""
    draw = Random(f"permuted {seed}")

    def shuffled(entry: Case) -> Case:
        if "children" not in entry:
            return entry
        children = [shuffled(child) for child in entry["children"]]
        draw.shuffle(children)
        return {**entry, "children": children}

    return {**case, "policy": shuffled(case["policy"])}


def renamed(case: Case, seed: int) -> tuple[Case, dict[str, str]]:
    """The case with other names, and the new path of every old one."""
    draw = Random(f"renamed {seed}")
    paths: dict[str, str] = {}

    def again(entry: Case, old: str, new: str) -> Case:
        paths[old] = new
        names = [f"{draw.choice('aZé~0')}{number}" for number in range(len(entry.get("children", ())))]
        draw.shuffle(names)
        children = [
            again({**child, "name": name}, f"{old}/{child['name']}", f"{new}/{name}")
            for child, name in zip(entry.get("children", ()), names, strict=True)
        ]
        return {**entry, "children": children} if "children" in entry else entry

    policy = again(case["policy"], "", "")
    return {**case, "policy": policy, "usage": {paths[path]: amount for path, amount in case["usage"].items()}}, paths


def _parameters(draw: Random, algorithm: str) -> dict[str, Any]:
    if algorithm == "slurm-fair-tree":
        return {"ties": draw.choice(("as-slurm", "as-documented"))}
    if algorithm in ("slurm-classic", "slurm-depth-oblivious"):
        return {"damping_factor": draw.choice((1, 1, 2, 5))}
    if algorithm != "aequus":
        return {}
    families = (f"relative-{draw.randint(2, 9)}", f"sigmoid-{draw.randint(2, 9)}", "relative-1000")
    operator = draw.choice(("absolute", "relative", "relative", "sigmoid", "slurm", "combined", *families))
    found: dict[str, Any] = {"operator": operator, "factor_from": draw.choice(("rank", "rank", "key"))}
    found["resolution"] = draw.choice(RESOLUTIONS) if draw.random() < 0.5 else draw.randint(2, 10_000)
    if operator == "combined":
        found["k"] = draw.choice((0, 0.25, 0.5, 1, draw.random()))
    if found["resolution"] >= 4 and draw.random() < 0.2:
        found["zero_shares"] = "last"
    return found


@dataclass
class _Maker:
    draw: Random
    algorithm: str
    usage: dict[str, float] = field(default_factory=dict)
    n_entries: int = 0

    def children(self, level: int, deepest: int) -> list[Case]:
        draw = self.draw
        count = draw.choice((0, 1, 2, 3, 3, 4, 5)) if level else draw.randint(1, 5)
        weight = self._weights(count)
        found = [self._entry(number, weight(), level, deepest) for number in range(count)]
        draw.shuffle(found)
        return found

    def _weights(self, count: int) -> Callable[[], Any]:
        draw = self.draw
        kinds: list[Callable[[], Any]] = [
            lambda: 1,
            lambda: draw.randint(0, 3),
            lambda: draw.randint(1, 9),
            lambda: draw.randint(0, 10**6),
            lambda: draw.choice((0, 1, 10**10)),
        ]
        if self.algorithm not in _WHOLE_SHARES:
            kinds += [lambda: draw.randint(1, 99) / 10, lambda: draw.choice((0, 1e-10, 1, 1e10))]
        return draw.choice(kinds)

    def _entry(self, number: int, shares: Any, level: int, deepest: int) -> Case:
        draw, entry = self.draw, {"name": f"e{number}", "shares": shares}
        if self.algorithm in _WITH_PARENT and draw.random() < 0.06:
            entry["shares"] = "parent"
        self.n_entries += 1
        is_group = (
            level < deepest
            and self.n_entries < _MOST_ENTRIES
            and draw.random() < (0.9 if deepest == 9 and number == 0 else 0.4)
        )
        if is_group:
            entry |= {"kind": "account", "children": self.children(level + 1, deepest)}
        elif entry["shares"] != "parent" and draw.random() < 0.05:
            entry["kind"] = "reserve"
        elif draw.random() < 0.9:
            entry["kind"] = "user"
        return entry

    def use(self, entry: Case, path: str, amount: int) -> None:
        """Divide an amount among an entry and all below: so that siblings tie, by chance, or by any size."""
        draw = self.draw
        takers = [child for child in entry.get("children", ()) if child.get("kind") != "reserve"]
        if not takers:
            if amount and path and entry.get("kind") != "reserve":
                is_whole = self.algorithm in _WHOLE_USAGE or draw.random() < 0.8
                self.usage[path] = amount if is_whole else amount / 10
            return
        if draw.random() < 0.05 and path:
            self.usage[path] = draw.randint(0, 9)
        for child, part in zip(takers, self._parts(takers, amount), strict=True):
            self.use(child, f"{path}/{child['name']}", part)

    def _parts(self, takers: list[Case], amount: int) -> list[int]:
        draw = self.draw
        kind = draw.choice(("by shares", "by shares", "tied", "tied", "at random", "at random", "some", "any", "none"))
        weights = [child["shares"] if child["shares"] != "parent" else 1 for child in takers]
        if kind in ("by shares", "tied") and all(isinstance(weight, int) and weight < 100 for weight in weights):
            if kind == "tied":  # equal quotients for most, another for the rest
                times = draw.choice((2, 3, 5, 7))
                weights = [weight * (times if draw.random() < 0.7 else draw.randint(0, 9)) for weight in weights]
            return [weight * max(1, amount // 100) for weight in weights]
        if kind == "any":
            return [int(10 ** draw.uniform(0, 12)) for _ in takers]
        if kind == "some":
            return [amount if draw.random() < 0.5 else 0 for _ in takers]
        return [0 if kind == "none" else draw.randint(0, max(amount, 1)) for _ in takers]
