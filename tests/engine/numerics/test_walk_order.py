"""Walks of larger trees, where lists are sorted in rows and in blocks: against the slow twins, with little blocks."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from apps.engine import fast
from apps.engine.algorithms import compute
from apps.engine.cases import solve
from apps.engine.numerics import walk_order
from apps.engine.tree import FairshareTree
from tests.each_case import each_case
from tests.material import missing
from tests.oracles import slurm_fair_tree as oracles_fair_tree


@pytest.fixture(params=["one block", "little blocks"], autouse=True)
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "little blocks":
        monkeypatch.setattr(walk_order, "_BLOCK", 64)
        monkeypatch.setattr(walk_order, "_FEWEST_IN_ROWS", 16)
        monkeypatch.setattr(walk_order, "_WIDEST_ROW", 24)


def grown(seed: int, amounts: list[float], shares: list[Any]) -> dict[str, Any]:
    """Some hundreds of users in groups of 1 to 60 at up to four levels, users and groups mixed."""
    draw = random.Random(seed)
    usage: dict[str, float] = {}

    def group(path: str, level: int) -> list[dict[str, Any]]:
        found = []
        for number in range(draw.choice((1, 2, 5, 9, 30, 60))):
            name = f"e{number}"
            entry: dict[str, Any] = {"name": name, "shares": draw.choice(shares), "kind": "user"}
            if level < 4 and draw.random() < 0.12:
                entry |= {"kind": "account", "children": group(f"{path}/{name}", level + 1)}
            else:
                usage[f"{path}/{name}"] = draw.choice(amounts)
            found.append(entry)
        return found

    children = [
        {
            "name": f"top{number}",
            "shares": draw.choice(shares[:2]),
            "kind": "account",
            "children": group(f"/top{number}", 2),
        }
        for number in range(6)
    ]
    return {"algorithm": {"name": "flux"}, "policy": {"name": "root", "children": children}, "usage": usage}


AMOUNTS: dict[str, list[float]] = {
    "ties": [0, 1, 2],
    "idle": [0],
    "any": [0, *(random.Random(1).random() * 1e5 for _ in range(999))],
}


@pytest.mark.parametrize("kind", AMOUNTS)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.deep)])
@pytest.mark.parametrize("ties", ["as-slurm", "as-documented"])
def test_slurm_ranks_equal_the_oracle(kind: str, seed: int, ties: str) -> None:
    case = grown(seed, AMOUNTS[kind], [1, 2, 3, 0, "parent"] if seed % 2 else [1, 1, 2])
    case["algorithm"] = {"name": "slurm-fair-tree", "ties": ties}
    nodes, twin = solve(case)["nodes"], oracles_fair_tree.slurm(case)
    assert {path: node["rank"] for path, node in nodes.items()} == {path: row["rank"] for path, row in twin.items()}


@pytest.mark.parametrize("kind", AMOUNTS)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.deep)])
def test_flux_ranks_equal_the_oracle(kind: str, seed: int) -> None:
    case = grown(seed, AMOUNTS[kind], [1, 2, 3, 0] if seed % 2 else [1, 1, 2])
    nodes, twin = solve(case)["nodes"], oracles_fair_tree.flux(case)
    assert {path: node["rank"] for path, node in nodes.items()} == {path: row["rank"] for path, row in twin.items()}


@pytest.mark.parametrize(
    "settings", [{"name": "slurm-fair-tree"}, {"name": "slurm-fair-tree", "ties": "as-documented"}]
)
def test_machine_code_changes_no_bit_of_a_large_tree(settings: dict[str, str]) -> None:
    """Usage in proportion to shares: nearly all levels tie on paper and are divided exactly."""
    if not fast.IS_INSTALLED:
        missing("no machine code: numba is not installed", "make setup")
    rng = np.random.default_rng(9)
    n_groups, n_users = 300, 40_000
    parent = np.concatenate(([-1], np.zeros(n_groups, dtype=np.int64), 1 + np.sort(rng.integers(0, n_groups, n_users))))
    shares = rng.integers(1, 8, len(parent)).astype(np.float64)
    is_user = np.arange(len(parent)) > n_groups
    tree, _ = FairshareTree.from_columns(parent, shares, is_user=is_user)
    usage = np.where(is_user, 3 * shares * rng.integers(1, 3, len(parent)), 0.0)
    with fast.switched(True):
        compiled = compute(tree, usage, algorithm=settings)
    with fast.switched(False):
        plain = compute(tree, usage, algorithm=settings)
    assert len(np.unique(plain.rank)) < n_users  # some do tie
    for name in ("rank", "factor", "priority"):
        assert (getattr(compiled, name) == getattr(plain, name)).all()
    assert (compiled.columns["level_fs"].values == plain.columns["level_fs"].values).all()


@each_case("seed", range(20))
def test_positions_in_depth_are_those_of_a_walk_by_hand(seed: int) -> None:
    draw = random.Random(seed)
    n = draw.randint(1, 40)
    parent = [-1] + [draw.randrange(max(0, row - 6), row) for row in range(1, n)]
    tree, _order = FairshareTree.from_columns(parent, [1.0] * n)
    children: dict[int, list[int]] = {}
    for entry in range(1, n):
        children.setdefault(int(tree.parent[entry]), []).append(entry)

    def walk(entry: int) -> list[int]:
        return [entry, *(below for child in children.get(entry, ()) for below in walk(child))]

    by_hand = {entry: number for number, entry in enumerate(walk(0))}
    assert walk_order.depth_first_position(tree).tolist() == [by_hand[entry] for entry in range(n)]
