"""What holds for every algorithm and operator, on arrays: sums, isolation, scopes, no NaN, declared properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.engine import codecs, operators, sweep
from apps.engine.algorithms import all_algorithms, compute, get_algorithm, read_algorithm
from apps.engine.algorithms.base import Explanation
from apps.engine.arrays import FloatArray
from apps.engine.errors import BadParameter, BadUsage
from apps.engine.numerics import vector_ranks
from apps.engine.tree import FairshareTree
from tests.examples import examples

OPERATORS = [operator.name for operator in operators.all_operators()]
ALGORITHMS = [{"name": "gridwide"}, *({"name": "aequus", "operator": name} for name in OPERATORS)]
AMOUNTS = [0.0, 5e-324, 1e-300, 1e-9, 0.1, 0.3, 1.0, 7.0, 1e9, 1e300, 1.7e308]


@st.composite
def trees(draw: st.DrawFn) -> tuple[FairshareTree, FloatArray]:
    """A tree with everything a tree may have, and absurd amounts of usage."""
    n = draw(st.integers(1, 25))
    parent = [-1] + [draw(st.integers(max(0, row - 6), row - 1)) for row in range(1, n)]
    shares = [draw(st.sampled_from([*AMOUNTS, float("nan")])) for _ in range(n)]
    leaf = [row not in parent for row in range(n)]
    reserve = [leaf[row] and row > 0 and draw(st.booleans()) for row in range(n)]
    group = [leaf[row] and not reserve[row] and draw(st.booleans()) for row in range(n)]
    tree, order = FairshareTree.from_columns(parent, shares, is_reserve=reserve, is_group=group)
    usage = np.array([0.0 if reserve[row] else draw(st.sampled_from(AMOUNTS)) for row in range(n)])
    return tree, usage[order]


@examples(250)
@given(drawn=trees(), algorithm=st.sampled_from(ALGORITHMS))
@pytest.mark.fault("F13")
def test_no_input_gives_nan_or_exceeds_the_declared_ranges(
    drawn: tuple[FairshareTree, FloatArray], algorithm: dict[str, str]
) -> None:
    tree, usage = drawn
    with np.errstate(all="raise", under="ignore"):
        result = compute(tree, usage, algorithm=algorithm)
    bound = 100.0 if algorithm["name"] == "gridwide" else 1.0
    for values, low, high in (
        (result.target, 0, 1),
        (result.actual, 0, 1),
        (result.target_global, 0, 1),
        (result.priority, -bound, bound),
        (result.factor, 0, 1),
        (result.usage, 0, np.finfo(np.float64).max),
    ):
        assert np.isfinite(values).all()
        assert (values >= low).all()
        assert (values / (1 + 1e-12) <= high).all()
    assert (result.rank[result.has_rank] >= 1).all()
    assert (result.rank[~result.has_rank] == 0).all()
    assert (result.rank[result.is_ranked] <= max(1, result.n_ranked)).all()


@examples(150)
@given(drawn=trees())
@pytest.mark.paper("4.14")
def test_targets_and_actuals_sum_to_one_or_zero_in_every_group(drawn: tuple[FairshareTree, FloatArray]) -> None:
    tree, usage = drawn
    result = compute(tree, usage)
    contest, entry, _, _ = tree.competition
    for values in (result.target, result.actual):
        for total in sweep.sibling_sum(contest, values[entry])[contest.child_count > 0]:
            assert total == 0 or total == pytest.approx(1)


@given(drawn=trees(), resolution=st.sampled_from([2, 7, 10000, 2**31]))
@pytest.mark.paper("V4")
def test_rank_is_one_plus_the_leaves_strictly_ahead(drawn: tuple[FairshareTree, FloatArray], resolution: int) -> None:
    tree, usage = drawn
    result = compute(tree, usage, algorithm={"name": "aequus", "resolution": resolution})
    leaves = np.flatnonzero(result.is_ranked).tolist()
    for entry in np.flatnonzero(result.has_rank).tolist():
        ahead = sum(codecs.compare(result.vector(leaf), result.vector(entry), resolution) > 0 for leaf in leaves)
        assert result.rank[entry] == 1 + ahead


@pytest.mark.parametrize("resolution", [3, 10000, 2**31])
@pytest.mark.parametrize(("n_groups", "is_grid"), [(300, True), (20, False)])
def test_ranks_of_a_large_tree_follow_its_sorted_vectors(n_groups: int, is_grid: bool, resolution: int) -> None:
    rng = np.random.default_rng(3)
    n_users = 20_000
    parent = np.concatenate(([-1], np.zeros(n_groups, dtype=np.int64), 1 + rng.integers(0, n_groups, n_users)))
    tree, _ = FairshareTree.from_columns(parent, rng.integers(1, 9, len(parent)).astype(np.float64))
    assert (tree.levels[-1].grid is not None) == is_grid
    usage = rng.integers(0, 50, len(parent)).astype(np.float64)
    result = compute(tree, usage, algorithm={"name": "aequus", "resolution": resolution})
    leaves = np.flatnonzero(result.is_ranked)
    rows = np.array([codecs.pad(result.vector(leaf), 2, resolution) for leaf in leaves.tolist()])
    best_first = leaves[np.lexsort(rows.T[::-1])[::-1]]
    rank, before = 0, None
    for place, leaf in enumerate(best_first.tolist(), start=1):
        vector = result.vector(leaf)
        rank = rank if vector == before else place
        assert result.rank[leaf] == rank
        before = vector


def test_keys_too_wide_to_be_packed_are_sorted_correctly() -> None:
    limit = 2**62
    keys = np.random.default_rng(3).integers(0, limit, 500)
    order, sorted_keys = vector_ranks.sort_keys(keys.copy(), limit)
    assert (keys[order] == sorted_keys).all()
    assert (np.diff(sorted_keys) >= 0).all()


@pytest.mark.parametrize("name", OPERATORS)
def test_declared_scale_invariance_and_isolation_hold(name: str) -> None:
    declared = operators.get_operator(name).properties
    assert declared.scale_invariance
    assert declared.isolation
    rng = np.random.default_rng(11)
    tree, _ = FairshareTree.from_columns([-1, 0, 0, 1, 1, 1, 2, 2], rng.integers(1, 9, 8).astype(np.float64))
    usage = np.array([0, 0, 0, *rng.integers(1, 99, 5)], dtype=np.float64)
    base = compute(tree, usage, algorithm={"name": "aequus", "operator": name})
    scaled = compute(tree, usage * 3.7, algorithm={"name": "aequus", "operator": name})
    np.testing.assert_allclose(scaled.priority, base.priority, atol=1e-9)
    elsewhere = usage.copy()
    elsewhere[6] += 40
    moved = compute(tree, elsewhere, algorithm={"name": "aequus", "operator": name})
    assert (moved.priority[3:6] == base.priority[3:6]).all()
    assert (moved.priority[6:] != base.priority[6:]).all()


@pytest.mark.parametrize("name", OPERATORS)
def test_the_inverse_recovers_the_state(name: str) -> None:
    apply = operators.get_operator(name)
    assert apply.inverse is not None
    grid = (np.arange(1, 40) / 40).astype(np.float64)
    t, s = (axis.ravel() for axis in np.meshgrid(grid, grid))
    np.testing.assert_allclose(apply.inverse(apply(t, s), t), s, atol=2e-7)


@pytest.mark.parametrize("name", OPERATORS)
def test_almost_on_target_counts_as_on_target(name: str) -> None:
    t = np.array([0.3, 0.3, 0.0, 1e-300])
    s = t * (1 + np.array([9e-13, -9e-13, 0.0, 0.0]))
    assert operators.get_operator(name)(t, s).tolist() == [0.0] * 4
    beyond = operators.get_operator(name)(np.array([0.3]), np.array([0.3 * (1 + 2e-12)]))
    if name.startswith("relative-"):  # a power of the gap may underflow to nothing
        assert beyond[0] <= 0
    else:
        assert beyond[0] < 0


def test_every_registered_algorithm_and_operator_describes_itself() -> None:
    for operator in operators.all_operators():
        assert operator.label
        assert operator.formula
        assert operator.reference
        assert operator.range == (-1.0, 1.0)
    assert set(all_algorithms()) >= {
        "aequus",
        "flux",
        "gridwide",
        "slurm-classic",
        "slurm-depth-oblivious",
        "slurm-fair-tree",
    }
    for name, algorithm in all_algorithms().items():
        assert algorithm.name == name
        assert algorithm.label
        assert algorithm.formula
        assert algorithm.reference
        assert algorithm.component
        assert isinstance(algorithm.properties(read_algorithm(name)), operators.Properties)
        for parameter in algorithm.parameters:
            assert parameter.label
            assert parameter.allowed
            assert parameter.read(parameter.default) == parameter.default


def test_settings_are_echoed_with_all_defaults() -> None:
    assert read_algorithm("aequus") == {
        "name": "aequus",
        "operator": "relative",
        "resolution": 10000,
        "factor_from": "rank",
    }
    combined = read_algorithm({"name": "aequus", "operator": "combined", "resolution": 100.0})
    assert combined == {
        "name": "aequus",
        "operator": "combined",
        "resolution": 100,
        "k": 0.5,
        "factor_from": "rank",
    }
    assert isinstance(combined["resolution"], int)
    with pytest.raises(BadParameter, match="unknown algorithm"):
        get_algorithm("maui")


def test_usage_of_another_shape_or_sign_is_refused() -> None:
    tree, _ = FairshareTree.from_columns([-1, 0, 0], np.ones(3), names=["root", "a", "b"], is_reserve=[0, 0, 1])
    for usage in ([1.0, 2.0], [[[1.0, 2.0, 3.0]]], np.zeros((0, 3))):
        with pytest.raises(BadUsage, match="shape"):
            compute(tree, usage)
    for amount in (-1.0, float("nan"), float("inf")):
        with pytest.raises(BadUsage, match="finite number ≥ 0") as refused:
            compute(tree, [0.0, amount, 0.0])
        assert (refused.value.row, refused.value.place) == (1, "/a")
    with pytest.raises(BadUsage, match="reserve"):
        compute(tree, [0.0, 0.0, 3.0])
    with pytest.raises(BadUsage, match="scopes"):
        compute(tree, np.zeros((2, 3)), scope_of_entry=[0, 0, 2])


@given(drawn=trees(), data=st.data())
def test_one_scope_for_all_is_the_same_as_no_scopes(
    drawn: tuple[FairshareTree, FloatArray], data: st.DataObject
) -> None:
    tree, usage = drawn
    other = np.where(tree.is_reserve, 0.0, 3.0)
    chosen = data.draw(st.integers(0, 1))
    rows = np.stack([usage, other] if chosen == 0 else [other, usage])
    scoped = compute(tree, rows, scope_of_entry=np.full(tree.n_entries, chosen))
    plain = compute(tree, usage)
    for name in ("usage", "actual", "priority", "rank", "factor"):
        np.testing.assert_allclose(getattr(scoped, name), getattr(plain, name), rtol=1e-12, atol=1e-300)


def test_scopes_come_from_the_parent_after_dissolving() -> None:
    nan = float("nan")
    tree, _ = FairshareTree.from_columns([-1, 0, 0, 1, 1], [1, nan, 1, 1, 2])
    # The children of entry 1 compete below the root, so the root's scope (1) decides, not that of entry 1 (0).
    result = compute(tree, [[9, 9, 9, 9, 9], [0, 5, 2, 3, 5]], scope_of_entry=[1, 0, 0, 0, 0])
    assert result.actual[[2, 3, 4]].tolist() == [0.2, 0.3, 0.5]
    assert result.usage[1] == 13.0
    assert not result.competes[1]


def test_a_factor_is_never_zero_for_a_leaf_and_best_is_one() -> None:
    for n in (1, 2, 3, 7, 10, 49, 1000):
        factor = codecs.factor_from_rank(np.arange(1, n + 1), n)
        assert factor[0] == 1.0
        assert factor[-1] > 0
        assert (np.diff(factor) < 0).all()
        assert factor.tolist() == [1 - ahead / n for ahead in range(n)]


@pytest.mark.paper("A10")
def test_combined_with_k_zero_is_relative_2() -> None:
    combined, relative_2 = operators.get_operator("combined", k=0), operators.get_operator("relative-2")
    steps = np.linspace(0.0, 1.0, 41)
    t, s = np.repeat(steps, 41), np.tile(steps, 41)
    assert np.array_equal(combined(t, s), relative_2(t, s))
    assert combined.properties == relative_2.properties
    assert operators.get_operator("combined", k=0.25).properties == operators.get_operator("absolute").properties


def test_an_explanation_by_ratio_names_the_columns_that_it_divides() -> None:
    assert Explanation("ratio", used="u", due="s").due == "s"
    assert Explanation("number") == Explanation("number", used="", due="")
    for used, due in (("", ""), ("u", ""), ("", "s")):
        with pytest.raises(BadParameter, match="names the columns"):
            Explanation("ratio", used=used, due=due)
