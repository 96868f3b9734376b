"""Slurm's depth-oblivious factor: what a running Slurm printed, the published formula, and the slow twin."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from apps.engine.cases import solve
from tests.engine.algorithms.share_trees import is_close, share_cases
from tests.oracles import slurm_classic as oracles_classic

NAME = "slurm-depth-oblivious"
NUMBERS = ("norm_shares", "norm_usage", "effective_usage", "factor")
POSITIVE = st.integers(1, 10_000)


@pytest.fixture(scope="module")
def captured(golden_dir: Path) -> list[dict[str, Any]]:
    cases = json.loads((golden_dir / "slurm/cases.json").read_text())
    return [case for case in cases if case["algorithm"]["name"] == NAME]


@pytest.fixture(scope="module")
def published(golden_dir: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((golden_dir / "depth_oblivious/cases.json").read_text())
    return found


def test_numbers_equal_sshare(captured: list[dict[str, Any]]) -> None:
    assert len(captured) == 20
    for case in captured:
        nodes = solve(case)["nodes"]
        assert nodes.keys() == case["expected"].keys()
        for path, expected in case["expected"].items():
            for name in NUMBERS:
                where = (case["id"], path, name)
                assert nodes[path][name] == pytest.approx(expected[name], rel=1e-9, abs=0), where
            assert nodes[path]["rank"] == expected.get("position"), (case["id"], path)


@pytest.mark.paper("F1")
def test_numbers_equal_the_formula(published: list[dict[str, Any]]) -> None:
    assert len(published) == 9
    for case in published:
        nodes = solve(case)["nodes"]
        assert nodes.keys() == case["expected"].keys()
        for path, expected in case["expected"].items():
            found, where = nodes[path], (case["id"], path)
            assert found["factor"] == pytest.approx(expected["factor"], rel=1e-12, abs=1e-12), where
            assert found["norm_shares"] == pytest.approx(expected["shares_norm"], rel=1e-12, abs=0), where
            assert found["norm_usage"] == pytest.approx(expected["usage_norm"], rel=1e-12, abs=0), where
            if expected["R"] is not None:
                assert ratio(found) == pytest.approx(expected["R"], rel=1e-12, abs=0), where


def ratio(node: dict[str, Any]) -> float:
    """R of a node: effective usage / normalised shares."""
    return float(node["effective_usage"] / node["norm_shares"])


def own_ratio(node: dict[str, Any]) -> float:
    """r of a node: usage / normalised shares."""
    return float(node["norm_usage"] / node["norm_shares"])


@given(share_cases(NAME), st.integers(1, 4))
def test_the_oracle_agrees(case: dict[str, Any], damping: int) -> None:
    case["algorithm"]["damping_factor"] = damping
    nodes, twin = solve(case)["nodes"], oracles_classic.solve(case)
    for path, expected in twin.items():
        for name in NUMBERS:
            assert is_close(nodes[path][name], expected[name]), (path, name)
        assert nodes[path]["rank"] == expected["rank"], path


def two_levels(groups: list[list[tuple[int, int]]], weights: list[int]) -> dict[str, Any]:
    """Accounts of the given shares, users with (shares, usage)."""
    children: list[dict[str, Any]] = []
    usage: dict[str, float] = {}
    for number, (users, shares) in enumerate(zip(groups, weights, strict=True)):
        below = [{"name": f"u{i}", "kind": "user", "shares": weight} for i, (weight, _) in enumerate(users)]
        children.append({"name": f"g{number}", "shares": shares, "children": below})
        usage |= {f"/g{number}/u{i}": used for i, (_, used) in enumerate(users)}
    policy = {"name": "root", "shares": 1, "children": children}
    return {"algorithm": {"name": NAME}, "policy": policy, "usage": usage}


users = st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1, max_size=5)
trees = st.lists(st.tuples(users, POSITIVE), min_size=2, max_size=4).map(
    lambda drawn: two_levels([group for group, _ in drawn], [shares for _, shares in drawn])
)


@given(users)
@pytest.mark.paper("F2")
def test_in_a_flat_tree_the_factor_is_the_original_formula(drawn: list[tuple[int, int]]) -> None:
    """flat-identity."""
    children = [{"name": f"u{i}", "shares": shares} for i, (shares, _) in enumerate(drawn)]
    usage = {f"/u{i}": used for i, (_, used) in enumerate(drawn)}
    policy = {"name": "root", "shares": 1, "children": children}
    for node in solve({"algorithm": {"name": NAME}, "policy": policy, "usage": usage})["nodes"].values():
        assert node["factor"] == pytest.approx(2 ** -own_ratio(node), rel=1e-12, abs=1e-300)


@given(users, POSITIVE)
def test_below_a_parent_on_target_the_ratio_is_the_local_one(drawn: list[tuple[int, int]], shares: int) -> None:
    """parent-on-target: two accounts of equal shares and equal usage."""
    used = sum(amount for _, amount in drawn)
    case = two_levels([drawn, [(1, used)]], [shares, shares])
    nodes = solve(case)["nodes"]
    assert ratio(nodes["/g0"]) == 1.0
    for path, node in nodes.items():
        assert ratio(node) == pytest.approx(own_ratio(node), rel=1e-12), path


@given(trees)
@pytest.mark.paper("F12", "F4")
def test_same_direction_ratios_are_local_and_opposite_ones_lie_between(case: dict[str, Any]) -> None:
    """same-direction and bounds."""
    nodes = solve(case)["nodes"]
    for path, node in nodes.items():
        if path.count("/") < 2:
            continue
        parent = nodes[path.rsplit("/", 1)[0]]
        of_parent, local = ratio(parent), own_ratio(node) / own_ratio(parent)
        if math.log(of_parent) * math.log(local) >= 0:
            assert ratio(node) == pytest.approx(own_ratio(node), rel=1e-12), path
        else:
            low, high = sorted((of_parent, of_parent * local))
            assert low * (1 - 1e-12) <= ratio(node) <= high * (1 + 1e-12), path


@given(trees, POSITIVE)
def test_equal_siblings_have_the_factor_of_their_parent(case: dict[str, Any], used: int) -> None:
    """siblings-equal, and an only child."""
    depth, path = 6, "/g0/u0"
    entry = case["policy"]["children"][0]["children"][0]
    case["usage"][path] = used
    for level in range(depth):
        if level == 0:
            del case["usage"][path]
        entry["children"] = [{"name": "only", "kind": "user", "shares": 3}]
        entry["kind"] = "account"
        entry, path = entry["children"][0], f"{path}/only"
    case["usage"][path] = used
    nodes = solve(case)["nodes"]
    while path != "/g0/u0":
        assert nodes[path]["factor"] == pytest.approx(nodes["/g0/u0"]["factor"], rel=1e-12, abs=1e-300)
        path = path.rsplit("/", 1)[0]


@given(trees, st.floats(1e-3, 1e3), st.integers(0, 3))
def test_multiplying_all_usage_or_a_groups_shares_changes_nothing(
    case: dict[str, Any], constant: float, group: int
) -> None:
    """scale."""
    before = solve(case)["nodes"]
    assume(group < len(case["policy"]["children"]))
    case["usage"] = {path: used * constant for path, used in case["usage"].items()}
    for child in case["policy"]["children"][group]["children"]:
        child["shares"] *= constant
    for path, node in solve(case)["nodes"].items():
        assert node["factor"] == pytest.approx(before[path]["factor"], rel=1e-9, abs=1e-300), path


def test_all_six_published_properties_are_tested(golden_dir: Path) -> None:
    listed = json.loads((golden_dir / "depth_oblivious/properties.json").read_text())
    here = Path(__file__).read_text()
    assert len(listed) == 6
    for each in listed:
        assert here.count(each["id"]) == 1, each["id"]


@pytest.mark.paper("F9")
def test_an_idle_member_of_a_busy_account_has_the_best_factor() -> None:
    case = two_levels([[(1, 0), (1, 90)], [(1, 10)]], [1, 1])
    nodes = solve(case)["nodes"]
    assert (nodes["/g0/u0"]["effective_usage"], nodes["/g0/u0"]["factor"]) == (0.0, 1.0)


@given(case=share_cases(NAME))
@pytest.mark.paper("F5")
def test_the_intermediate_columns_give_ratio_and_factor(case: dict[str, Any]) -> None:
    """R = R_parent · r_l^k and F = 2^−R, each number as it is shown; what doesn't exist is null."""
    nodes = solve(case)["nodes"]
    for path, node in nodes.items():
        ratio, own, k = node["effective_ratio"], node["local_ratio"], node["k"]
        if ratio is not None and node["factor"] is not None:
            assert node["factor"] == pytest.approx(2.0**-ratio, rel=1e-9)
        above = nodes.get(path.rpartition("/")[0], {"effective_ratio": None})["effective_ratio"]
        if k is not None and above is not None:
            assert (k == 1) == ((above - 1) * (own - 1) >= 0) or abs(math.log(above)) < 1e-7
            assert ratio == pytest.approx(above * own**k, rel=1e-9)


@pytest.mark.paper("F3")
def test_the_worked_example_shows_its_local_ratio_and_its_exponent() -> None:
    """A group that used twice its target, with a user who used two thirds of theirs: r_l is a third."""
    policy = {
        "name": "root",
        "shares": 1,
        "children": [
            {
                "name": "g",
                "shares": 1,
                "kind": "account",
                "children": [{"name": "u", "shares": 1, "kind": "user"}, {"name": "v", "shares": 2, "kind": "user"}],
            },
            {"name": "h", "shares": 3, "kind": "account", "children": [{"name": "w", "shares": 1, "kind": "user"}]},
        ],
    }
    case = {"id": "x", "algorithm": {"name": NAME}, "policy": policy, "usage": {"/g/u": 1, "/g/v": 8, "/h/w": 9}}
    nodes = solve(case)["nodes"]
    assert (nodes["/g"]["local_ratio"], nodes["/g"]["effective_ratio"], nodes["/g"]["k"]) == (2.0, 2.0, None)
    user = nodes["/g/u"]
    assert user["local_ratio"] == pytest.approx(1 / 3)
    assert user["k"] == pytest.approx(1 / (1 + (5 * math.log(2)) ** 2), rel=1e-12)
    assert user["effective_ratio"] == pytest.approx(1.83806, abs=5e-6)
    assert user["factor"] == pytest.approx(0.279697, abs=5e-7)
