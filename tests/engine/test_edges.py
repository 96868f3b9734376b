"""Named edges of the numbers: exact ties, targets met, shares too far apart, groups without users, zero shares."""

from __future__ import annotations

import json
import math
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest

from apps.engine import codecs
from apps.engine.algorithms import compute
from apps.engine.cases import solve, solve_all
from apps.engine.errors import BadParameter, EngineError
from apps.engine.operators import MOST_N, all_operators, get_operator
from apps.engine.tree import FairshareTree
from tests.call_counts import count_calls
from tests.each_case import each_case
from tests.engine.random_cases import ALGORITHMS, random_case

OPERATORS = [operator.name for operator in all_operators()] + [f"relative-{MOST_N}", f"sigmoid-{MOST_N}"]


def user(name: str, shares: float) -> dict[str, Any]:
    return {"name": name, "shares": shares, "kind": "user"}


def group(name: str, shares: float, *children: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "shares": shares, "kind": "account", "children": list(children)}


def case(*children: dict[str, Any], usage: dict[str, float] | None = None, **algorithm: Any) -> dict[str, Any]:
    settings = {"name": "aequus", **algorithm}
    return {"algorithm": settings, "policy": group("root", 1, *children), "usage": usage or {}}


def values_of(given: dict[str, Any], name: str) -> list[Any]:
    return [node[name] for node in solve(given)["nodes"].values()]


@pytest.mark.paper("O11")
def test_siblings_with_equal_quotients_share_component_and_rank() -> None:
    given = case(user("x", 1), user("y", 7), user("z", 2), usage={"/x": 5, "/y": 35, "/z": 9})
    assert values_of(given, "vector") == [[4900], [4900], [5408]]
    assert values_of(given, "rank") == [2, 2, 1]
    given = case(user("x", 95), user("y", 15), user("z", 32), usage={"/x": 19, "/y": 3, "/z": 120}, resolution=100)
    assert values_of(given, "vector")[:2] == [[90], [90]]


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.paper("O11")
def test_equal_quotients_tie_at_every_resolution(name: str) -> None:
    for seed in range(12):
        draw = Random(seed)
        shares = np.array([draw.randint(1, 200) for _ in range(9)], dtype=np.float64)
        usage = shares * draw.choice((1, 2, 3, 7))
        usage[-1] += draw.randint(1, 300) * shares.sum()
        target, actual = shares / shares.sum(), usage / usage.sum()
        priority = get_operator(name)(target, actual)
        absolute = name == "absolute" or name.startswith("combined")
        for resolution in range(2, 10_001, 61):
            found = codecs.scalar(priority, resolution)[:-1]
            if not absolute:
                assert len(set(found.tolist())) == 1
            assert (found >= resolution // 2).all()


def test_component_edges_are_exact() -> None:
    assert codecs.scalar(np.array([-0.8, 0.2, 0.8]), 10_000).tolist() == [1000, 6000, 9000]
    for resolution in range(2, 10_001):
        edges = np.arange(0, resolution, max(1, resolution // 50))
        assert (codecs.scalar(edges / resolution * 2.0 - 1.0, resolution) == edges).all()


def test_usage_exactly_on_target_is_the_balance_at_every_resolution() -> None:
    for operator in map(get_operator, OPERATORS):
        priority = operator(np.array([0.1, 1 / 3, 0.7]), np.array([3 / 30, 7 / 21, 35 / 50]))
        assert (priority == 0).all()
    for resolution in range(2, 10_001):
        assert codecs.scalar(np.zeros(1), resolution).tolist() == [resolution // 2]


@each_case("name", OPERATORS)
@each_case("over", [1e-9, 1e-6, 0.015, 0.5])
@pytest.mark.paper("A9")
def test_over_target_never_ties_with_on_target(name: str, over: float) -> None:
    """At an odd resolution the balance is the middle of a component, which the formula gives to both."""
    target = np.array([0.1, 0.25])
    priority = get_operator(name)(target, target * (1 + over))
    assert (priority < 0).all()
    for resolution in (2, 4, 10, 100, 10_000, 2**31):
        assert (codecs.scalar(priority, resolution) < resolution // 2).all()


@pytest.mark.paper("A9")
def test_an_exponent_beyond_double_precision_is_rejected_by_name() -> None:
    for name in (f"relative-{MOST_N + 1}", "sigmoid-999999999"):
        with pytest.raises(BadParameter, match=f"{name}.*integer from 2 to {MOST_N}"):
            get_operator(name)


def test_half_points_round_to_even_despite_double_errors() -> None:
    given = case(user("a", 12), user("b", 88), usage={"/a": 1, "/b": 7}, name="gridwide")
    assert solve(given)["nodes"]["/a"]["priority"] != -0.5
    assert values_of(given, "value") == ["100", "100"]
    assert codecs.grid_value([-0.5000000000000004, 1.4999999999999996, 2.5, 0.51], 4) == codecs.grid_value(
        [0, 2, 2, 1], 4
    )


def test_decimal_usage_ties_in_fair_tree_as_long_doubles_do() -> None:
    def ranks(*amounts: float) -> list[int]:
        usage = dict(zip(("/x", "/y", "/z"), amounts, strict=True))
        return values_of(case(user("x", 1), user("y", 1), user("z", 3), usage=usage, name="slurm-fair-tree"), "rank")

    assert ranks(1, 5, 3) == [1, 3, 2]  # S = 1/5 and 3/5 as doubles: 3 · (1/5) is another number
    assert ranks(0.2, 1, 0.6) == [2, 3, 1]  # and so are 3 · 0.2 and 0.6


@pytest.mark.parametrize("name", ["aequus", "gridwide"])
def test_a_group_of_empty_groups_and_reserves_has_no_rank(name: str) -> None:
    empty = group(
        "g", 1, group("e", 1), {"name": "r", "shares": 1, "kind": "reserve"}, group("deep", 1, group("er", 1))
    )
    nodes = solve(case(empty, user("u", 1), user("v", 1), usage={"/u": 1}, name=name))["nodes"]
    assert {path: node["rank"] for path, node in nodes.items() if node["rank"]} == {"/u": 2, "/v": 1}
    assert nodes["/g"]["factor"] is None
    assert solve(case(empty, name=name))["nodes"]["/g"]["rank"] is None


def zero_case(**more: Any) -> dict[str, Any]:
    entries = (user("zero", 0), user("over", 1), user("far", 1), user("under", 50))
    return case(*entries, usage={"/over": 60, "/far": 900, "/under": 40}, **more)


@pytest.mark.paper("O10", "Z1")
def test_an_idle_entry_without_shares_is_on_target_unless_zero_shares_are_last() -> None:
    assert values_of(zero_case(), "rank") == [2, 3, 4, 1]
    assert values_of(zero_case(zero_shares="last"), "rank") == [4, 2, 3, 1]
    assert values_of(zero_case(zero_shares="last"), "vector")[0] == [0]


@each_case("name", OPERATORS)
@each_case("resolution", [4, 5, 100, 10_000])
@pytest.mark.paper("Z1")
def test_zero_shares_last_ranks_them_after_every_sibling_with_shares(name: str, resolution: int) -> None:
    given = zero_case(operator=name, resolution=resolution, zero_shares="last")
    ranks = values_of(given, "rank")
    assert ranks[0] == 4
    assert max(ranks[1:]) < 4
    over = values_of(given, "vector")[1][0]
    assert over < resolution // 2 or resolution % 2


def test_default_zero_shares_is_omitted_from_settings() -> None:
    assert "zero_shares" not in solve(zero_case(zero_shares="operator"))["algorithm"]
    assert solve(zero_case(zero_shares="last"))["algorithm"]["zero_shares"] == "last"
    assert "zero_shares" not in solve(zero_case(resolution=3, zero_shares="operator"))["algorithm"]
    with pytest.raises(BadParameter, match="resolution of 4 or more"):
        solve(zero_case(resolution=3, zero_shares="last"))


FAR = group("a", 1, group("b", 1e17), user("u", 1e-300))


def outcomes(*cases: dict[str, Any]) -> list[Any]:
    return list(solve_all([{"id": f"c{number}", **given} for number, given in enumerate(cases)]))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_shares_too_far_apart_are_reported_and_others_computed(name: str) -> None:
    good = case(user("x", 1), user("y", 2), usage={"/x": 1}, name=name)
    siblings = case(user("x", 1e-300), user("y", 1e300), usage={"/x": 1}, name=name)
    nested = case(FAR, user("v", 1e-30), usage={"/a/u": 87451, "/v": 1}, name=name)
    first, bad, worse, last = outcomes(good, siblings, nested, good)
    assert first["nodes"] == last["nodes"]
    assert [bad[0], worse[0]] == ["c1", "c2"]
    assert bad[1].startswith("/x: its target in its group")
    assert worse[1].startswith("/a/u: its target in its group")


@pytest.mark.parametrize("name", ["slurm-classic", "slurm-depth-oblivious"])
def test_shares_too_far_apart_over_several_levels_are_reported(name: str) -> None:
    deep = group("a", 1e-200, group("b", 1e-200, user("u", 1)), user("w", 1))
    (found,) = outcomes(case(deep, user("v", 1), usage={"/a/b/u": 1}, name=name))
    assert found == (
        "c0",
        "/a/b: its target in the whole tree is below 2.23e-308: the shares are too far apart to be compared",
    )
    (found,) = outcomes(case(deep, user("v", 1), usage={"/a/b/u": 1}, name="aequus"))
    assert found["nodes"]["/a/b/u"]["rank"] == 3


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_underflowing_tree_is_computed_with_tiny_values(name: str) -> None:
    """The service has no case to refuse: entries with shares keep a target, and nothing is infinite."""
    tree, _ = FairshareTree.from_columns(
        [-1, 0, 0, 1, 1], [1, 1e-200, 1, 1e-300, 1e300], is_user=[False, False, True, True, True]
    )
    result = compute(tree, np.array([0.0, 0.0, 5.0, 3.0, 0.0]), algorithm=name)
    assert (result.target[1:] > 0).all()
    assert (result.target_global[1:] > 0).all()
    for values in (result.target, result.priority, result.factor, *(each.values for each in result.columns.values())):
        assert not np.isnan(values).any()
    assert all(np.isfinite(each.values).all() for key, each in result.columns.items() if key != "level_fs")


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.fault("F13")
def test_extreme_numbers_are_computed_or_reported(name: str) -> None:
    for seed in range(60):
        given, draw = random_case(name, seed), Random(seed)
        entries = [given["policy"]]
        for entry in entries:
            entries += entry.get("children", ())
            if draw.random() < 0.2:
                entry["shares"] = draw.choice((1e-300, 1e300, 5e-324, 1.7e308, 1e-15, 1e15))
        amounts = (1e-300, 1e300, 5e-324, 1.7e308, 1)
        given["usage"] = {path: draw.choice(amounts) for path in given["usage"]}
        try:
            answer = solve(given)
        except EngineError as problem:
            assert "too far apart" in problem.message  # noqa: PT017 - it may be answered as well
        else:
            assert json.dumps(answer, allow_nan=False)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_ten_thousand_equal_siblings_tie(name: str) -> None:
    n = 10_000
    tree, _ = FairshareTree.from_columns([-1] + [0] * n, np.full(n + 1, 0.1), is_user=[False] + [True] * n)
    for amount in (0.0, 0.1, 1 / 3):
        usage = np.append(0.0, np.full(n, amount))
        compute(tree, usage, algorithm=name)  # kernels are compiled, which costs calls of its own
        result, calls = count_calls(partial(compute, tree, usage, algorithm=name))
        assert calls < 20 * n
        assert (result.rank[1:] == 1).all()
        assert math.isclose(result.factor[1], result.factor[-1])


@pytest.mark.paper("Z10")
def test_the_order_of_lsf_is_that_of_relative_and_the_order_of_maui_that_of_absolute() -> None:
    """LSF's manual divides shares by usage, Maui's subtracts usage from the target (docs/recipe-others.md)."""
    shares, usage = np.array([60.0, 10.0, 30.0]), np.array([54.0, 5.0, 41.0])
    target, actual = shares / shares.sum(), usage / usage.sum()
    by_lsf, by_maui = np.argsort(-(shares / usage)), np.argsort(-(target - actual))
    assert np.argsort(-get_operator("relative")(target, actual)).tolist() == by_lsf.tolist() == [1, 0, 2]
    assert np.argsort(-get_operator("absolute")(target, actual)).tolist() == by_maui.tolist() == [0, 1, 2]
    absolute, relative = (get_operator(name).schedulers for name in ("absolute", "relative"))
    assert absolute.startswith("The paper (section 6) names LSF. The manuals of Maui")
    assert relative.startswith("The paper (section 6) names Maui. The manual of LSF")
