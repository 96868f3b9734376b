"""Slurm's Fair Tree: what a running Slurm printed, what its manual says, the slow twin, and the edges of the rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.engine.algorithms import compute_prepared, read_algorithm
from apps.engine.algorithms.inputs import compare_usage, prepare
from apps.engine.arrays import FloatArray
from apps.engine.cases import solve
from apps.engine.tree import FairshareTree
from tests.engine.algorithms.share_trees import is_close, share_cases
from tests.examples import examples
from tests.oracles import slurm_fair_tree as oracles_fair_tree

NAME = "slurm-fair-tree"
NUMBERS = ("norm_shares", "norm_usage", "effective_usage", "level_fs", "factor")


@pytest.fixture(scope="module")
def captured(golden_dir: Path) -> list[dict[str, Any]]:
    cases = json.loads((golden_dir / "slurm/cases.json").read_text())
    return [case for case in cases if case["algorithm"]["name"] == NAME]


def test_numbers_and_ranks_equal_sshare(captured: list[dict[str, Any]]) -> None:
    assert len(captured) == 16
    for case in captured:
        nodes = solve(case)["nodes"]
        assert nodes.keys() == case["expected"].keys()
        for path, expected in case["expected"].items():
            for name in NUMBERS:
                number = expected[name]
                if name == "norm_shares" and expected["raw_shares"] == "parent" and path.count("/") == 1:
                    number = None  # Slurm prints 1/4294967294, which is its sign for "no value"
                where = (case["id"], path, name)
                if isinstance(number, float):
                    number = pytest.approx(number, rel=1e-9, abs=0)
                assert nodes[path][name] == number, where
            assert nodes[path]["rank"] == expected.get("position"), (case["id"], path)


def test_the_documented_variant_gives_ranks_of_merged_accounts(captured: list[dict[str, Any]]) -> None:
    documented = [case for case in captured if "documented_rank" in case]
    assert len(documented) == 4
    for case in documented:
        nodes = solve({**case, "algorithm": {"name": NAME, "ties": "as-documented"}})["nodes"]
        for path, rank in case["documented_rank"].items():
            assert nodes[path]["factor"] * case["user_count"] == pytest.approx(rank, rel=1e-12), (case["id"], path)


def case_of(children: list[dict[str, Any]], usage: Mapping[str, float], ties: str = "as-slurm") -> dict[str, Any]:
    policy = {"name": "root", "shares": 1, "children": children}
    return {"algorithm": {"name": NAME, "ties": ties}, "policy": policy, "usage": dict(usage)}


def user(name: str, shares: Any = 1) -> dict[str, Any]:
    return {"name": name, "kind": "user", "shares": shares}


def account(name: str, shares: Any, *children: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "kind": "account", "shares": shares, "children": list(children)}


def ranks(case: dict[str, Any]) -> dict[str, int]:
    return {path.rsplit("/", 1)[1]: node["rank"] for path, node in solve(case)["nodes"].items() if node["rank"]}


TIES = st.sampled_from(("as-slurm", "as-documented"))
FEW = st.one_of(st.integers(0, 3), st.just("parent"))


def assert_as_the_twin(case: dict[str, Any]) -> None:
    nodes, twin = solve(case)["nodes"], oracles_fair_tree.slurm(case)
    assert nodes.keys() == twin.keys()
    for path, expected in twin.items():
        for name in NUMBERS:
            found = nodes[path][name]
            if found == "Infinity" or expected[name] == "Infinity":
                assert found == expected[name], (path, name)
            else:
                assert is_close(found, expected[name]), (path, name, found, expected[name])
        assert nodes[path]["rank"] == expected["rank"], path


@examples(250)
@given(share_cases(NAME, weights=FEW, amounts=st.integers(0, 3), most_entries=18), TIES)
def test_the_oracle_agrees_with_many_ties(case: dict[str, Any], ties: str) -> None:
    case["algorithm"]["ties"] = ties
    assert_as_the_twin(case)


@examples(150)
@given(share_cases(NAME, amounts=st.one_of(st.integers(0, 100), st.sampled_from((1e-300, 1e-9, 1e300)))), TIES)
def test_the_oracle_agrees_on_any_amounts(case: dict[str, Any], ties: str) -> None:
    case["algorithm"]["ties"] = ties
    assert_as_the_twin(case)


@examples(60)
@given(
    st.lists(st.tuples(st.integers(0, 48), st.sampled_from((1, 2, 3))), min_size=2, max_size=40),
    st.sampled_from((1.0, 0.1, 7.3)),
    st.booleans(),
    TIES,
)
def test_levels_a_few_bits_apart_are_ordered_by_long_doubles(
    members: list[tuple[int, int]], least: float, has_account: bool, ties: str
) -> None:
    """Doubles decide between most of these, and must not decide between those that long doubles may tie."""
    children = [user(f"u{number}", shares) for number, (_, shares) in enumerate(members)]
    usage = {f"/u{number}": least * shares * (1 + bits * 2.0**-52) for number, (bits, shares) in enumerate(members)}
    if has_account:
        children.append(account("a", 1, user("x"), user("y", 2)))
        usage |= {"/a/x": least * 0.3, "/a/y": least * 0.7}
    assert_as_the_twin(case_of(children, usage, ties))


@pytest.mark.parametrize("ties", ["as-slurm", "as-documented"])
def test_long_double_sums_are_computed_only_for_possible_ties(ties: str) -> None:
    numbers = np.random.default_rng(3)
    tree, _ = FairshareTree.from_columns(
        [-1, *[0] * 2_000], [1.0, *numbers.integers(1, 99, 2_000)], is_user=[False, *[True] * 2_000]
    )
    settings = read_algorithm({"name": NAME, "ties": ties})
    usage = np.append(0.0, numbers.random(2_000) + 1e-3)
    usage[[7, 8]] = 0.0
    usage[3] = usage[4] * tree.shares[3] / tree.shares[4] * (1 + 2.0**-45)

    def makes_long_sums(usage: FloatArray) -> bool:
        compared = compare_usage(prepare(tree), usage, None)
        compute_prepared(prepare(tree), compared, settings)
        return "long_totals" in vars(compared)

    assert not makes_long_sums(usage)
    usage[5] = usage[6] * tree.shares[5] / tree.shares[6]
    assert makes_long_sums(usage)


@examples(30)
@given(st.lists(st.tuples(FEW, FEW, st.integers(0, 2)), min_size=62, max_size=62), TIES)
def test_the_oracle_agrees_to_a_depth_of_64(levels: list[tuple[Any, Any, int]], ties: str) -> None:
    below, usage, path = [user("u"), user("v")], {}, ""
    for number, (shares, other, _) in enumerate(levels):
        below = [user(f"w{number}", other), account("a", shares, *below), account("b", other, user("x"))]
    for number, (_, _, amount) in enumerate(levels):
        usage[f"{path}/w{len(levels) - 1 - number}"] = amount
        usage[f"{path}/b/x"] = amount
        path += "/a"
    assert_as_the_twin(case_of(below, usage, ties))


def test_an_account_with_promoted_children_stays_in_the_list_and_breaks_the_tie() -> None:
    """Of two tied accounts the second starts tied; its first entry has the level of no value, so none ties."""
    handed = [account("handed", "parent"), user("cat", 2)]
    plain = [user("cat", 2)]
    other = [user("ann", 1), user("bob", 1)]
    usage = {"/a/ann": 10, "/a/bob": 20, "/b/cat": 30}
    assert ranks(case_of([account("a", 1, *other), account("b", 1, *plain)], usage)) == {"ann": 1, "bob": 2, "cat": 2}
    assert ranks(case_of([account("a", 1, *other), account("b", 1, *handed)], usage)) == {"ann": 1, "bob": 2, "cat": 3}


def test_children_of_an_inheriting_account_replace_it_in_the_list() -> None:
    """Depth-first: `ann` comes before the later sibling `b`, so the account that is tied and walked second is b."""
    first, second = account("a", 1, user("ann")), account("b", 1, user("bob", 1), user("cat", 2))
    usage = {"/p/a/ann": 3, "/b/bob": 2, "/b/cat": 1}
    assert ranks(case_of([account("p", "parent", first), second], usage)) == {"ann": 1, "cat": 1, "bob": 3}
    usage = {"/b/bob": 2, "/b/cat": 1, "/p/a/ann": 3}
    assert ranks(case_of([second, account("p", "parent", first)], usage)) == {"cat": 1, "bob": 2, "ann": 2}


def test_mathematically_equal_levels_tie_only_if_long_doubles_do() -> None:
    """Shares 1 : 3 : 6 with usage 100 : 300 : 600: the first is a bit above the others, which tie."""
    children = [user("ann", 1), user("bob", 3), user("cat", 6), user("dan", 90)]
    found = ranks(case_of(children, {"/ann": 100, "/bob": 300, "/cat": 600, "/dan": 360}))
    assert found == {"dan": 1, "ann": 2, "bob": 3, "cat": 3}


def test_only_users_are_ranked_and_reserves_take_part_in_normalisation() -> None:
    children = [user("ann", 1), {"name": "desk", "shares": 1}, {"name": "kept", "kind": "reserve", "shares": 2}]
    nodes = solve(case_of(children, {"/ann": 1, "/desk": 1}))["nodes"]
    assert nodes["/ann"]["norm_shares"] == 0.25
    assert (nodes["/ann"]["rank"], nodes["/ann"]["factor"]) == (1, 1.0)
    for path in ("/desk", "/kept"):
        assert (nodes[path]["rank"], nodes[path]["factor"]) == (None, None)


def test_own_usage_of_an_account_is_part_of_the_denominator_of_its_members() -> None:
    nodes = solve(case_of([account("a", 1, user("ann"), user("bob"))], {"/a": 60, "/a/ann": 30, "/a/bob": 10}))["nodes"]
    assert nodes["/a/ann"]["effective_usage"] == pytest.approx(0.3)
    assert nodes["/a/bob"]["level_fs"] == pytest.approx(5.0)


@pytest.mark.parametrize("ties", ["as-slurm", "as-documented"])
def test_levels_beyond_double_range_are_ordered(ties: str) -> None:
    usage = {"/ann": 1e-300, "/bob": 1e300, "/cat": 1e-290, "/dan": 0.0, "/eve": 2e-300}
    children = [user("ann"), user("bob"), user("cat"), user("dan"), user("eve", 2)]
    nodes = solve(case_of(children, usage, ties))["nodes"]
    assert [nodes[path]["rank"] for path in ("/dan", "/ann", "/eve", "/cat", "/bob")] == [1, 2, 2, 4, 5]
    assert [nodes[path]["level_fs"] for path in ("/ann", "/dan")] == ["Infinity", "Infinity"]
