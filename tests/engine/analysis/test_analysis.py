"""What operators are and how they order: definition, equivalence, redistribution, densities."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from apps.engine import operators
from apps.engine.analysis import density, properties
from apps.engine.errors import BadParameter
from tests.examples import examples
from tests.oracles import analysis as oracles_analysis

ALL = [operator.name for operator in operators.all_operators()]
SHARE = st.floats(min_value=1e-6, max_value=1.0)
# Gap, divisor and power are rounded one after the other: neighbouring doubles may come out a few last bits apart.
LAST_BITS = 1e-15


@pytest.fixture(scope="module")
def paper(golden_dir: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((golden_dir / "operators/operators.json").read_text())
    return found


def one_value(operator: operators.Operator) -> Callable[[float, float], float]:
    return lambda t, s: float(operator(np.array([t]), np.array([s]))[0])


@pytest.fixture
def without_inverse() -> operators.Operator:
    """An operator as another package may bring it."""
    return operators.Operator(
        name="plain",
        label="Plain",
        formula="t − s",
        reference="",
        properties=operators.get_operator("absolute").properties,
        off_target=lambda t, s: t - s,
    )


@pytest.mark.paper("O1")
def test_the_definition_holds_where_the_paper_says(paper: dict[str, Any]) -> None:
    for listed in paper["conditions"]:
        found = properties.check_definition(operators.get_operator(listed["operator"]))
        assert found.is_in_range == listed["range_-1_1"]
        assert found.has_sign == listed["sign_eq2"]
        assert found.rises_with_target == listed["strictly_increasing_in_t_on_(0,1]"]
        assert found.falls_with_actual == listed["strictly_decreasing_in_s_on_(0,1]"]
        assert found.lowest_without_target == listed["boundary_t=0_is_-1"]
        assert found.highest_without_usage == listed["boundary_s=0_is_1"]
        assert not found.broken
        assert found.has_boundaries == operators.get_operator(listed["operator"]).properties.boundaries


@pytest.mark.paper("D5")
def test_all_but_slurm_are_odd_functions_so_combined_is_symmetric_unlike_the_text_of_figure_8() -> None:
    odd = {name for name in ALL if properties.check_definition(operators.get_operator(name)).is_odd}
    assert odd == set(ALL) - {"slurm"}


@pytest.mark.paper("A1")
def test_the_check_rejects_invalid_operators() -> None:
    broken = operators.Operator(
        name="broken",
        label="",
        formula="",
        reference="",
        properties=operators.get_operator("absolute").properties,
        off_target=lambda t, s: 1.5 * (s - t),
    )
    found = properties.check_definition(broken)
    assert not any((found.is_in_range, found.has_sign, found.rises_with_target, found.falls_with_actual))
    assert found.broken


@pytest.mark.paper("O9")
def test_boundary_values_equal_table_1() -> None:
    s = np.array([0.25, 1.0])
    assert properties.without_target(operators.get_operator("combined"), s).tolist() == [-0.625, -1.0]
    assert properties.without_usage(operators.get_operator("combined"), s).tolist() == [0.625, 1.0]
    assert properties.without_target(operators.get_operator("absolute"), s).tolist() == [-0.25, -1.0]
    assert properties.without_usage(operators.get_operator("slurm"), s).tolist() == [1.0, 1.0]


@pytest.mark.paper("A6")
def test_operators_order_like_relative_as_in_the_paper(paper: dict[str, Any]) -> None:
    relative = operators.get_operator("relative")
    for listed in paper["conditions"]:
        found = properties.compare_orders(operators.get_operator(listed["operator"]), relative)
        assert found.is_full == listed["equivalent_to_relative"], listed["operator"]
        assert (found.example is None) == found.is_full
        assert found.pairs == 121 * 120 // 2
        again = properties.check_redistribution(operators.get_operator(listed["operator"]))
        assert again.is_full == listed["proportional_unused_share"], listed["operator"]


def test_reported_reversed_pairs_are_reversed() -> None:
    absolute, relative = operators.get_operator("absolute"), operators.get_operator("relative")
    found = properties.compare_orders(absolute, relative)
    assert found.example is not None
    t_i, s_i, t_j, s_j = found.example
    gaps = [one_value(op)(t_i, s_i) - one_value(op)(t_j, s_j) for op in (absolute, relative)]
    assert np.sign(np.round(gaps[0], 9)) != np.sign(np.round(gaps[1], 9))
    assert 0 < found.share < 1
    # 92 % of random pairs agree; a grid has ties in one and not the other, so fewer.
    assert found.share > 0.85


def test_random_pairs_agree_as_often_as_sampled(paper: dict[str, Any]) -> None:
    rng = np.random.default_rng(5)
    t, s = rng.random((2, 2, 20_000))
    for listed in paper["conditions"]:
        p = operators.get_operator(listed["operator"])
        agree = np.sign(p(t[0], s[0]) - p(t[1], s[1])) == np.sign(s[1] / t[1] - s[0] / t[0])
        assert float(agree.mean()) == pytest.approx(listed["sampled_agreement_with_order_of_s/t"], abs=0.02)


@examples(300)
@given(users=st.lists(st.tuples(SHARE, SHARE), min_size=2, max_size=8), name=st.sampled_from(ALL))
def test_equivalent_operators_order_alike_before_quantisation(users: list[tuple[float, float]], name: str) -> None:
    apply = operators.get_operator(name)
    assume(apply.properties.proportional_redistribution)
    t, s = np.array(users).T
    ratio = s / t
    apart = np.abs(np.log(ratio)[:, None] - np.log(ratio)[None, :]) > 1e-3
    gap = apply(t, s)[:, None] - apply(t, s)[None, :]
    ahead = ratio[:, None] < ratio[None, :]
    # Steep powers and sines may round to the same double; they never turn the order round.
    assert (gap[apart & ahead] >= 0).all()
    relative = operators.get_operator("relative")(t, s)
    wide = apart & (np.abs(relative[:, None] - relative[None, :]) > 0.01)
    wide &= (np.abs(relative) < 0.98)[:, None] & (np.abs(relative) < 0.98)[None, :]
    assert (gap[wide & ahead] > 0).all()


@examples(300)
@example(t=0.3, s=1 - 2**-53, other=0.3, name="relative")
@given(t=SHARE, s=SHARE, other=SHARE, name=st.sampled_from(ALL))
def test_more_target_never_lowers_and_more_usage_never_raises_priority(
    t: float, s: float, other: float, name: str
) -> None:
    value = one_value(operators.get_operator(name))
    low, high = sorted((t, other))
    assert value(low, s) <= value(high, s) + 1e-12
    assert value(s, low) >= value(s, high) - 1e-12
    assert -1 <= value(t, s) <= 1
    assert value(t, 0.0) + LAST_BITS >= value(t, s) >= value(t, 1.0) - LAST_BITS
    assert value(0.0, s) <= value(t, s) + LAST_BITS
    if abs(t - s) > 1e-3:
        assert np.sign(value(t, s)) == np.sign(t - s)


@examples(200)
@given(t=SHARE, s=SHARE, name=st.sampled_from(ALL), scale=st.floats(min_value=1e-3, max_value=1.0))
def test_the_relative_family_depends_only_on_the_ratio(t: float, s: float, name: str, scale: float) -> None:
    apply = operators.get_operator(name)
    value = one_value(apply)
    if apply.properties.proportional_redistribution:
        assume(abs(s / t - 1) > 1e-6)
        assert value(t * scale, s * scale) == pytest.approx(value(t, s), abs=1e-6)
    else:
        assert abs(value(t * scale, s * scale)) <= abs(value(t, s)) + 1e-12  # less of a group, less of a distance


def test_the_state_of_equal_priority_is_equation_16() -> None:
    t, s, other = np.array([0.4, 0.3, 0.2]), np.array([0.1, 0.45, 0.2]), np.array([0.2, 0.15, 0.5])
    for name in ALL:
        found = properties.state_of_same_priority(operators.get_operator(name), t, s, other)
        if operators.get_operator(name).properties.proportional_redistribution:
            np.testing.assert_allclose(found, s * other / t, rtol=1e-7)
    absolute = properties.state_of_same_priority(operators.get_operator("absolute"), t, s, other)
    np.testing.assert_allclose(absolute, other - t + s, atol=1e-15)


@pytest.mark.paper("A2")
def test_virtual_targets_equal_the_paper(paper: dict[str, Any]) -> None:
    for section, key, settle in (
        ("proportional", "virtual_targets", properties.virtual_targets),
        ("equal", "shares", properties.equal_split_targets),
    ):
        for listed in paper["unused_share"][section]:
            names = list(listed["targets"])
            active = [name in listed["active"] for name in names]
            found = dict(zip(names, settle(list(listed["targets"].values()), active).tolist(), strict=True))
            assert {name: found[name] for name in listed["active"]} == pytest.approx(listed[key], abs=1e-12)
            assert all(found[name] == 0 for name in names if name not in listed["active"])
    assert properties.virtual_targets([0.0, 1.0], [True, False]).tolist() == [0.0, 0.0]
    assert properties.equal_split_targets([0.5, 0.5], [False, False]).tolist() == [0.0, 0.0]


@pytest.mark.paper("D1")
def test_input_densities_equal_the_paper(paper: dict[str, Any]) -> None:
    listed = paper["input_density_r8"]
    assert density.effective_priorities(8).tolist() == listed["columns"]
    for name, expected in listed["values"].items():
        np.testing.assert_allclose(density.input_density(operators.get_operator(name), 8), expected, atol=0.003)
    for name, expected in listed["exact"].items():
        np.testing.assert_allclose(density.input_density(operators.get_operator(name), 8), expected, atol=1e-12)


def test_input_densities_of_the_relative_family_equal_the_closed_form() -> None:
    """F depends on q = s/t alone, and the area with s ≤ q·t is q/2 up to q = 1 and 1 − 1/(2q) above."""
    for r in (2, 7, 64):
        edges = density.effective_priorities(r)[1:]
        for name in ALL:
            apply = operators.get_operator(name)
            if apply.inverse is None or not apply.properties.proportional_redistribution:
                continue
            q = apply.inverse(edges, np.ones_like(edges))
            area = np.where(q <= 1, q / 2, 1 - 1 / (2 * np.maximum(q, 1)))
            expected = -np.diff(area, prepend=1.0, append=0.0)
            np.testing.assert_allclose(density.input_density(apply, r), expected, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("name", ALL)
def test_densities_count_the_inputs_of_each_component(name: str) -> None:
    apply = operators.get_operator(name)
    counted = oracles_analysis.counted_density(one_value(apply), 5, 60)
    np.testing.assert_allclose(density.input_density(apply, 5), counted, atol=0.02)
    for t in (0.0, 0.3, 1.0):
        local = oracles_analysis.counted_local_density(one_value(apply), t, 5, 1000)
        np.testing.assert_allclose(density.local_density(apply, t, 5), local, atol=0.002)


@examples(60)
@given(name=st.sampled_from(ALL), r=st.integers(2, 40), t=st.floats(0, 1))
def test_densities_sum_to_one(name: str, r: int, t: float) -> None:
    apply = operators.get_operator(name)
    for found in (density.input_density(apply, r), density.local_density(apply, t, r)):
        assert len(found) == r
        assert found.sum() == pytest.approx(1)
        assert (found >= -1e-12).all()


@pytest.mark.paper("D2")
def test_local_densities_equal_the_paper(paper: dict[str, Any]) -> None:
    for t, listed in paper["local_density_r8"]["targets"].items():
        for name, expected in listed.items():
            found = density.local_density(operators.get_operator(name), float(t), 8)
            np.testing.assert_allclose(found, expected, atol=1e-9, err_msg=f"{name} at {t}")


@pytest.mark.paper("D3", "D4")
def test_statements_of_the_text_about_densities_hold() -> None:
    found = {name: density.input_density(operators.get_operator(name), 8) for name in ALL}
    seven = ("absolute", "relative", "relative-2", "sigmoid", "sigmoid-2", "slurm", "combined")
    assert min(seven, key=lambda name: found[name][0]) == "absolute"
    assert min(seven, key=lambda name: found[name][3] + found[name][4]) == "sigmoid-2"
    assert max(seven, key=lambda name: found[name][0] + found[name][-1]) == "sigmoid-2"
    np.testing.assert_allclose(found["relative"], 0.125, atol=1e-12)


def test_an_operator_without_inverse_is_measured(without_inverse: operators.Operator) -> None:
    absolute = operators.get_operator("absolute")
    np.testing.assert_allclose(density.input_density(without_inverse, 4), density.input_density(absolute, 4), atol=1e-9)
    np.testing.assert_allclose(
        density.local_density(without_inverse, 0.3, 8), density.local_density(absolute, 0.3, 8), atol=1e-12
    )
    with pytest.raises(BadParameter, match="inverse"):
        properties.state_of_same_priority(without_inverse, np.array([0.1]), np.array([0.2]), np.array([0.3]))


@pytest.mark.parametrize("k", [0.0, 0.2, 1.0])
@pytest.mark.paper("O7")
def test_the_inverse_of_combined_holds_for_every_k(k: float) -> None:
    apply = operators.get_operator("combined", k=k)
    assert apply.inverse is not None
    grid = np.arange(1, 30) / 30
    t, s = (axis.ravel() for axis in np.meshgrid(grid, grid))
    np.testing.assert_allclose(apply.inverse(apply(t, s), t), s, atol=1e-7)
