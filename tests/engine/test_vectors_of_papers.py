"""The published definitions in numbers: every section of the operator and grid-wide vectors.

The densities and figure 17 are in test_analysis and test_analysis_job_size.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apps.engine import codecs, operators
from apps.engine.algorithms import compute
from apps.engine.numerics import vector_ranks
from apps.engine.tree import FairshareTree
from tests.oracles import engine as oracles

TOLERANCE = 1e-12


@pytest.fixture(scope="module")
def paper(golden_dir: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((golden_dir / "operators/operators.json").read_text())
    return found


@pytest.fixture(scope="module")
def grid(golden_dir: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((golden_dir / "gridwide/gridwide.json").read_text())
    return found


def value(name: str, t: float, s: float, k: float = 0.5) -> float:
    return float(operators.get_operator(name, k=k)(np.array([t]), np.array([s]))[0])


@pytest.mark.paper("O2", "O3", "O4", "O5", "O6", "O7", "O8")
def test_operators_equal_the_grid_of_the_paper(paper: dict[str, Any]) -> None:
    assert len(paper["grid"]["operators"]) == 13
    for listed in paper["grid"]["operators"]:
        apply = operators.get_operator(listed["operator"], k=listed.get("k", 0.5))
        t, s, expected = np.array(listed["values"]).T
        np.testing.assert_allclose(apply(t, s), expected, rtol=0, atol=TOLERANCE, err_msg=listed["operator"])


def test_declared_properties_equal_the_paper(paper: dict[str, Any]) -> None:
    for listed in paper["conditions"]:
        declared = operators.get_operator(listed["operator"]).properties
        assert declared.proportional_redistribution == listed["proportional_unused_share"]
        assert declared.boundaries == (listed["boundary_t=0_is_-1"] and listed["boundary_s=0_is_1"])


@pytest.mark.paper("O1")
def test_definition_checks_hold_on_a_fine_grid(paper: dict[str, Any]) -> None:
    points = np.arange(0, 41) / 40
    t, s = (axis.ravel() for axis in np.meshgrid(points, points, indexing="ij"))
    for listed in paper["conditions"]:
        p = operators.get_operator(listed["operator"])(t, s)
        table = p.reshape(41, 41)  # rows t, columns s
        assert listed["range_-1_1"] == bool((np.abs(p) <= 1).all())
        assert listed["sign_eq2"] == bool((np.sign(p) == np.sign(t - s)).all())
        rises = bool((np.diff(table[1:, 1:], axis=0) > 0).all())
        falls = bool((np.diff(table[1:, 1:], axis=1) < 0).all())
        assert (rises, falls) == (
            listed["strictly_increasing_in_t_on_(0,1]"],
            listed["strictly_decreasing_in_s_on_(0,1]"],
        )
        assert bool((np.diff(table[1:, 0]) > 0).all()) == listed["strictly_increasing_in_t_at_s=0"]
        assert bool((np.diff(table[0, 1:]) < 0).all()) == listed["strictly_decreasing_in_s_at_t=0"]
        assert bool((table[0, 1:] == -1).all()) == listed["boundary_t=0_is_-1"]
        assert bool((table[1:, 0] == 1).all()) == listed["boundary_s=0_is_1"]


@pytest.mark.paper("O9")
def test_boundaries_equal_table_1(paper: dict[str, Any]) -> None:
    formulas: dict[str, Callable[[float], float]] = {
        "-s": lambda x: -x,
        "t": lambda x: x,
        "-1": lambda x: -1.0,
        "1": lambda x: 1.0,
        "-0.5-s/2": lambda x: -0.5 - x / 2,
        "0.5+t/2": lambda x: 0.5 + x / 2,
    }
    for row in paper["table1_boundary"]:
        name = row["operator"].split()[0]
        for x in (0.05, 0.3, 1.0):
            assert value(name, 0.0, x) == pytest.approx(formulas[row["t=0"]](x), abs=TOLERANCE)
            assert value(name, x, 0.0) == pytest.approx(formulas[row["s=0"]](x), abs=TOLERANCE)


@pytest.mark.paper("V2", "Z3")
def test_scalars_and_effective_priorities_equal_the_examples(paper: dict[str, Any]) -> None:
    for example in paper["serialization"]["examples"]:
        got = codecs.scalar(np.array([example["priority"]]), example["resolution"])
        assert got.tolist() == [example["scalar"]], example
        effective = codecs.effective_priority(got, example["resolution"])
        assert effective[0] == pytest.approx(example["effective"], abs=TOLERANCE)
    assert codecs.effective_priority(np.arange(4), 4).tolist() == paper["serialization"]["P_4"]


def test_plain_floors_change_effective_priorities_as_in_the_vectors(paper: dict[str, Any]) -> None:
    changed = 0
    for r in (100, 1000, 10000):
        scalars = np.arange(r)
        floored = np.floor((codecs.effective_priority(scalars, r) + 1.0) * (r / 2.0))
        changed += int((floored != scalars).sum())
    assert f"{changed} of 11100" in paper["serialization"]["roundtrip"]["gotcha"]


@pytest.mark.parametrize("r", [2, 3, 8, 100, 256, 1000, 10000, 65536])
def test_a_component_survives_the_rounding_of_its_effective_priority(r: int) -> None:
    scalars = np.arange(r)
    assert (codecs.scalar(codecs.effective_priority(scalars, r), r) == scalars).all()


@pytest.mark.paper("V2")
def test_keys_are_fixed_width_strings(paper: dict[str, Any]) -> None:
    for example in paper["strings"]:
        key = codecs.key_string(example["vector"], example["depth"], example["resolution"])
        assert key == example["string"]


@pytest.mark.paper("V3")
def test_low_resolution_inverts_the_order_of_figure_5(paper: dict[str, Any]) -> None:
    fig5 = paper["fig5"]
    for resolution, expected in fig5["by_resolution"].items():
        found = {name: codecs.scalar(np.array(fig5[name]), int(resolution)).tolist() for name in ("u1", "u2")}
        assert found == {name: expected[name] for name in ("u1", "u2")}
        is_first = codecs.compare(found["u1"], found["u2"], int(resolution)) > 0
        assert ("u1" if is_first else "u2") == expected["first"]
    assert sorted(("u1", "u2"), key=lambda name: fig5[name], reverse=True) == fig5["true_order"]


@pytest.mark.paper("V5")
def test_vectors_compare_as_if_padded_with_the_balance(paper: dict[str, Any]) -> None:
    for example in paper["comparison"]["examples"]:
        a, b, r = example["a"], example["b"], example["resolution"]
        depth = max(len(a), len(b))
        assert codecs.pad(a, depth, r) == example["padded_a"]
        assert codecs.pad(b, depth, r) == example["padded_b"]
        assert codecs.compare(a, b, r) == example["result"] == oracles.compare_vectors(a, b, r)
        assert codecs.compare(b, a, r) == -example["result"]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("absolute", "relative", "slurm") else pytest.mark.deep)
        for name in (operator.name for operator in operators.all_operators())
    ],
)
@pytest.mark.paper("A2")
def test_unused_share_converges_as_declared_by_the_operator(paper: dict[str, Any], name: str) -> None:
    """Serve the entry ahead, one job at a time; usage settles at the virtual targets, or splits equally."""
    apply = operators.get_operator(name)
    sections = [("proportional", "virtual_targets")] if apply.properties.proportional_redistribution else []
    if name == "absolute":
        sections = [("equal", "shares")]
    for section, key in sections:
        for example in paper["unused_share"][section]:
            names = list(example["targets"])
            t = np.array([example["targets"][user] for user in names])
            is_active = np.array([user in example["active"] for user in names])
            used = np.where(is_active, 1.0, 0.0)
            for _ in range(3000):
                priority = apply(t, used / used.sum())
                used[int(np.argmax(np.where(is_active, priority, -np.inf)))] += 1.0
            found = {user: used[names.index(user)] / used.sum() for user in example["active"]}
            assert found == pytest.approx(example[key], abs=0.004), (name, example)


def test_absolute_and_combined_break_the_order_under_virtual_targets(paper: dict[str, Any]) -> None:
    for name in ("absolute", "combined"):
        case = paper[f"eq15_counterexample_{name}"]
        virtual = [case["ti"] / case["scale"], case["tj"] / case["scale"]]
        real = [value(name, case["ti"], case["si"]), value(name, case["tj"], case["sj"])]
        assert real == pytest.approx(case["real"], abs=TOLERANCE)
        found = [value(name, virtual[0], case["si"]), value(name, virtual[1], case["sj"])]
        assert found == pytest.approx(case["virtual"], abs=TOLERANCE)
        assert (real[0] > real[1]) != (found[0] > found[1])


@pytest.mark.paper("A6")
def test_equivalent_operators_give_the_same_order(paper: dict[str, Any]) -> None:
    for example in paper["equivalence"]["orders"]:
        t, s = np.array(list(example["users"].values())).T
        for name, expected in example["order"].items():
            found = np.argsort(-operators.get_operator(name)(t, s), kind="stable")
            assert [list(example["users"])[i] for i in found] == expected, name
    ours = {op.name for op in operators.all_operators() if op.properties.proportional_redistribution}
    assert ours == set(paper["equivalence"]["equivalent"])


@pytest.mark.paper("4.36")
def test_base_200_encodes_the_examples(grid: dict[str, Any]) -> None:
    for example in grid["encoding"]["examples"]:
        assert codecs.grid_value(example["deviation"], example["depth"]) == example["priority"]


def test_base_200_values_have_arbitrary_size(grid: dict[str, Any]) -> None:
    limits = grid["limits"]
    for depth, largest in limits["max_by_depth"].items():
        assert str(codecs.grid_value([100] * int(depth), int(depth))) == largest
    for pair in limits["double_collisions"]:
        a, b = (codecs.grid_value(pair[name], len(pair[name])) for name in "ab")
        assert (str(a), str(b)) == (pair["int_a"], pair["int_b"])
        assert a != b
        assert (float(a) == float(b)) == pair["equal_as_double"]
    wrapped = limits["int64_wraparound_depth9"]
    exact = codecs.grid_value(wrapped["deviation"], 9)
    assert str(exact) == wrapped["exact"]
    assert str((exact + 2**63) % 2**64 - 2**63) == wrapped["as_int64"]
    maxima = {depth: codecs.grid_value([100] * depth, depth) for depth in range(1, 12)}
    assert max(d for d in maxima if maxima[d] < 2**53) == limits["exact_in_double_up_to_depth"]
    assert max(d for d in maxima if maxima[d] < 2**32) == limits["fits_uint32_up_to_depth"]
    assert max(d for d in maxima if maxima[d] < 2**63) == limits["fits_int64_up_to_depth"]


def rank_tuples(tuples: list[list[float]]) -> list[int]:
    """Ranks of tuples through a tree with one branch for each."""
    parent, deviation, leaves = [-1], [0.0], []
    for numbers in tuples:
        above = 0
        for number in numbers:
            parent.append(above)
            deviation.append(number)
            above = len(parent) - 1
        leaves.append(above)
    tree, order = FairshareTree.from_columns(parent, np.ones(len(parent)))
    ends = np.isin(order, leaves).astype(np.int64)
    ahead = vector_ranks.count_ahead(tree, vector_ranks.classes_of_numbers(np.array(deviation)[order], 1e-9), ends)
    by_row = dict(zip(order.tolist(), (ahead + 1).tolist(), strict=True))
    return [by_row[leaf] for leaf in leaves]


@pytest.mark.paper("4.35")
def test_tuples_decide_where_the_number_ties_or_misleads(grid: dict[str, Any]) -> None:
    carry, fraction = grid["digit_traps"]
    assert codecs.grid_value(carry["a"], 2) == codecs.grid_value(carry["b"], 2) == carry["priority_a"]
    assert rank_tuples([carry["a"], carry["b"]]) == [2, 1]
    unrounded = [sum((d + 100) * 200 ** (1 - i) for i, d in enumerate(fraction[name])) for name in "ab"]
    assert unrounded == pytest.approx([fraction["priority_a"], fraction["priority_b"]])
    assert unrounded[0] < unrounded[1]  # the number puts b first …
    assert rank_tuples([fraction["a"], fraction["b"]]) == [1, 2]  # … the tuples a


@pytest.mark.paper("4.35", "4.37")
def test_tuples_are_ordered_with_missing_levels_as_zero(grid: dict[str, Any]) -> None:
    ordering = grid["ordering"]
    tuples = ordering["tuples"]
    values = [codecs.grid_value(numbers, ordering["depth"]) for numbers in tuples]
    assert values == ordering["priorities"]
    ranks = rank_tuples(tuples)
    assert sorted(range(len(tuples)), key=lambda i: (ranks[i], i)) == ordering["descending_indices"]
    tied = [[i for i in range(len(tuples)) if ranks[i] == rank] for rank in sorted(set(ranks))]
    assert [group for group in tied if len(group) > 1] == ordering["ties"]


def scope_tree(shares: dict[str, dict[str, float]]) -> tuple[FairshareTree, list[str]]:
    names, parent, weight = ["root"], [-1], [1.0]
    for group, children in shares.items():
        for child, amount in children.items():
            names.append(child)
            parent.append(names.index(group or "root"))
            weight.append(amount)
    tree, order = FairshareTree.from_columns(parent, weight, names=names)
    return tree, [names[row] for row in order]


@pytest.mark.parametrize("deviations", ["deviations", "deviations_all_local"])
@pytest.mark.paper("4.10", "4.33", "4.34")
def test_each_group_is_compared_by_the_scope_of_its_parent(grid: dict[str, Any], deviations: str) -> None:
    scope = grid["scope"]
    tree, names = scope_tree(scope["policy_shares"])
    global_usage = [scope["global_usage"].get(name, 0) for name in names]
    for resource, expected in scope[deviations].items():
        local_usage = [scope["usage_by_resource"][resource].get(name, 0) for name in names]
        below_root = 1 if deviations == "deviations" else 0
        scope_of_entry = [0] + [below_root] * (len(names) - 1)
        result = compute(
            tree, np.array([local_usage, global_usage]), algorithm="gridwide", scope_of_entry=scope_of_entry
        )
        for name, numbers in expected.items():
            assert result.components(names.index(name)) == pytest.approx(numbers, abs=1e-9)
        if deviations == "deviations":
            leaves = [names.index(name) for name in expected]
            best = sorted(leaves, key=lambda leaf: result.rank[leaf])
            assert [names[leaf] for leaf in best] == scope["order_best_first"][resource]
