"""Numbers of `compute` are those of exact arithmetic: ties stay ties, whatever siblings are called, in any order."""

from __future__ import annotations

import numpy as np
import pytest

from apps.engine import codecs
from apps.engine.cases import solve
from tests.engine.numerics.exact_twins import between, differences
from tests.engine.random_cases import ALGORITHMS, RESOLUTIONS
from tests.oracles.algorithms import TWINS

DEEP_FROM = 10_000_000  # numbers that the ordinary run doesn't have


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_random_cases_agree_with_exact_arithmetic(algorithm: str) -> None:
    assert list(differences(algorithm, first=0, n=70)) == []


@pytest.mark.parametrize(
    ("algorithm", "number"),
    [
        ("gridwide", 31_006_860),
        ("gridwide", 33_001_867),
        ("slurm-depth-oblivious", 31_012_002),
        ("flux", 32_012_937),
    ],
)
def test_cases_found_by_random_runs_agree(algorithm: str, number: int) -> None:
    """31,006,860: deviations a hair less than 1e-9 points apart, which rounding made a hair more.

    33,001,867: deviations just above and just below 0, which the root's own empty tuple made tie.
    31,012,002: siblings on target below an account that isn't, whose k depended on the order of sums.
    32,012,937: weights of decimal shares, closer than flux's tolerance, which doubles held to be further apart.
    """
    assert list(differences(algorithm, first=number, n=1)) == []


@pytest.mark.parametrize("algorithm", ["aequus", "gridwide"])
def test_a_group_without_ranked_leaves_below_has_no_rank_and_no_factor(algorithm: str) -> None:
    """h has only an empty group and a reserve below; e is empty at the top; g has a user besides an empty group."""
    empty = {"name": "e", "shares": 1, "children": []}
    reserve = {"name": "r", "shares": 1, "kind": "reserve"}
    children = [
        {"name": "h", "shares": 1, "children": [{"name": "d", "shares": 1, "children": [empty]}, reserve]},
        {"name": "g", "shares": 1, "children": [empty, {"name": "u", "shares": 1, "kind": "user"}]},
        empty,
    ]
    usage = {"/h/d/e": 9, "/g/u": 1, "/e": 2}
    settings = {"name": algorithm} | ({"operator": "relative", "resolution": 10_000} if algorithm == "aequus" else {})
    case = {"id": algorithm, "algorithm": settings, "policy": {"name": "root", "children": children}, "usage": usage}
    nodes = solve(case)["nodes"]
    assert [path for path, node in nodes.items() if node["rank"] is not None] == ["/g", "/g/u"]
    assert all((node["rank"] is None) == (node["factor"] is None) for node in nodes.values())
    assert list(between(nodes, TWINS[algorithm](case))) == []


@pytest.mark.deep
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_thousands_of_random_cases_agree_with_exact_arithmetic(algorithm: str) -> None:
    assert list(differences(algorithm, first=DEEP_FROM, n=3000)) == []


def test_one_number_and_many_have_the_same_component() -> None:
    priorities = np.concatenate([np.linspace(-1, 1, 201), [-1e-300, 1e-300, -0.8, np.nextafter(0.8, 0)]])
    for resolution in (*RESOLUTIONS, 2**31):
        one_by_one = [codecs.component_of(priority, resolution) for priority in priorities.tolist()]
        assert one_by_one == codecs.scalar(priorities, resolution).tolist()
