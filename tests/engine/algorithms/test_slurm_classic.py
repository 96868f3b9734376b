"""Slurm's classic share tree: what a running Slurm printed, the slow twin, and the edges of the rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.engine.algorithms import compute
from apps.engine.cases import solve
from apps.engine.errors import BadParameter
from apps.engine.tree import FairshareTree
from tests.engine.algorithms.share_trees import is_close, share_cases
from tests.oracles import slurm_classic as oracles_classic

NAME = "slurm-classic"
NUMBERS = ("norm_shares", "norm_usage", "effective_usage", "factor")


@pytest.fixture(scope="module")
def captured(golden_dir: Path) -> list[dict[str, Any]]:
    cases = json.loads((golden_dir / "slurm/cases.json").read_text())
    return [case for case in cases if case["algorithm"]["name"] == NAME]


@pytest.mark.paper("F10")
def test_numbers_equal_sshare(captured: list[dict[str, Any]]) -> None:
    assert len(captured) == 20
    for case in captured:
        nodes = solve(case)["nodes"]
        assert nodes.keys() == case["expected"].keys()
        for path, expected in case["expected"].items():
            for name in NUMBERS:
                where = (case["id"], path, name)
                assert nodes[path][name] == pytest.approx(expected[name], rel=1e-9, abs=0), where
            assert nodes[path]["level_fs"] is None
            assert nodes[path]["rank"] == expected.get("position"), (case["id"], path)


def case_of(children: list[dict[str, Any]], usage: Mapping[str, float], **parameters: int) -> dict[str, Any]:
    policy = {"name": "root", "shares": 1, "children": children}
    return {"algorithm": {"name": NAME, **parameters}, "policy": policy, "usage": dict(usage)}


def user(name: str, shares: Any = 1) -> dict[str, Any]:
    return {"name": name, "kind": "user", "shares": shares}


@given(share_cases(NAME), st.integers(1, 4))
def test_the_oracle_agrees(case: dict[str, Any], damping: int) -> None:
    case["algorithm"]["damping_factor"] = damping
    nodes, twin = solve(case)["nodes"], oracles_classic.solve(case)
    assert nodes.keys() == twin.keys()
    for path, expected in twin.items():
        for name in NUMBERS:
            assert is_close(nodes[path][name], expected[name]), (path, name)
        assert nodes[path]["rank"] == expected["rank"], path


def test_damping_takes_the_root_of_a_factor() -> None:
    children, usage = [user("ann", 1), user("bob", 3)], {"/ann": 3, "/bob": 1}
    plain, damped = (solve(case_of(children, usage, damping_factor=d))["nodes"] for d in (1, 5))
    for path in ("/ann", "/bob"):
        assert damped[path]["factor"] == pytest.approx(plain[path]["factor"] ** (1 / 5), rel=1e-14)
        assert damped[path]["rank"] == plain[path]["rank"]


@pytest.mark.paper("F9")
def test_without_shares_the_factor_is_0_and_without_usage_it_is_1() -> None:
    nodes = solve(case_of([user("none", 0), user("idle", 2), user("busy", 2)], {"/busy": 7}))["nodes"]
    assert (nodes["/none"]["factor"], nodes["/idle"]["factor"]) == (0.0, 1.0)
    assert [nodes[path]["rank"] for path in ("/idle", "/busy", "/none")] == [1, 2, 3]


def test_huge_ratios_give_0_and_tie() -> None:
    nodes = solve(case_of([user("all", 10**9), user("ann", 1), user("bob", 1)], {"/ann": 5, "/bob": 4}))["nodes"]
    assert nodes["/ann"]["factor"] == nodes["/bob"]["factor"] == 0.0
    assert nodes["/ann"]["rank"] == nodes["/bob"]["rank"] == 2


def test_only_leaf_users_are_ranked_and_all_but_reserves_have_a_factor() -> None:
    children: list[dict[str, Any]] = [
        {"name": "alpha", "kind": "account", "shares": 3, "children": [user("ann")]},
        {"name": "empty", "kind": "account", "shares": 1, "children": []},
        {"name": "odd", "kind": "user", "shares": 1, "children": []},
        {"name": "plain", "shares": 1},
        {"name": "left", "kind": "reserve", "shares": 4},
    ]
    nodes = solve(case_of(children, {"/alpha/ann": 1}))["nodes"]
    assert {path: node["rank"] for path, node in nodes.items() if node["rank"]} == {"/alpha/ann": 1}
    assert [path for path, node in nodes.items() if node["factor"] is None] == ["/left"]
    assert nodes["/alpha"]["norm_shares"] == 0.3  # the reserve takes part


def test_shares_of_parent_directly_below_the_root_count_as_all_shares_and_their_own_usage() -> None:
    nodes = solve(case_of([user("ann", "parent"), user("bob", 1)], {"/ann": 1, "/bob": 3}))["nodes"]
    ann = nodes["/ann"]
    assert (ann["norm_shares"], ann["effective_usage"], ann["factor"]) == (1.0, 0.25, 2**-0.25)


def test_a_level_without_shares_has_the_usage_of_its_account() -> None:
    account = {"name": "a", "kind": "account", "shares": 1, "children": [user("x", 0), user("y", 0)]}
    nodes = solve(case_of([account, user("z", 1)], {"/a/x": 1, "/z": 3}))["nodes"]
    assert nodes["/a/x"]["effective_usage"] == nodes["/a/y"]["effective_usage"] == 0.25
    assert nodes["/a/x"]["factor"] == 0.0


@pytest.mark.parametrize("damping", [0, -1, 1.5, True, "2", float("inf"), None])
def test_the_damping_factor_is_an_integer_of_at_least_1(damping: object) -> None:
    with pytest.raises(BadParameter) as refused:
        solve(case_of([user("ann")], {}) | {"algorithm": {"name": NAME, "damping_factor": damping}})
    assert refused.value.place == "algorithm.damping_factor"


def test_a_group_in_another_scope_is_divided_by_usage_of_that_scope() -> None:
    tree, _ = FairshareTree.from_columns([-1, 0, 0, 1, 1], [1, 1, 1, 1, 1], is_user=[False, False, True, True, True])
    usage = np.array([[0, 0, 2.0, 1.0, 1.0], [0, 0, 8.0, 6.0, 2.0]])
    mixed = compute(tree, usage, algorithm=NAME, scope_of_entry=[0, 1, 0, 0, 0])
    assert mixed.columns["norm_usage"].values.tolist() == [1.0, 0.5, 0.5, 0.375, 0.125]
    same = compute(tree, usage, algorithm=NAME, scope_of_entry=[1, 1, 1, 1, 1])
    plain = compute(tree, usage[1], algorithm=NAME)
    assert same.factor == pytest.approx(plain.factor, rel=1e-15)
