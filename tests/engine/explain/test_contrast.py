"""Two entries side by side: the level that decides, and changes that turn the order when everything is recomputed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given
from hypothesis import strategies as st

from apps.engine import sweep
from apps.engine.algorithms import PriorityResult, all_algorithms, compute, get_algorithm
from apps.engine.arrays import FloatArray
from apps.engine.explain import contrast
from apps.engine.explain.contrast import build_minimal_tree, compare, decides_by_level, least
from apps.engine.tree import FairshareTree
from tests.examples import examples

OPERATORS = ("absolute", "relative", "sigmoid-2", "combined", "slurm")
ALGORITHMS: list[dict[str, Any]] = [
    *({"name": name} for name in sorted(all_algorithms())),
    {"name": "slurm-fair-tree", "ties": "as-documented"},
    *({"name": "aequus", "operator": name, "resolution": r} for name in OPERATORS for r in (20, 2**31)),
]


@st.composite
def sites(draw: st.DrawFn, *, inherit: bool = True) -> tuple[FairshareTree, FloatArray]:
    """Two to four levels, users as leaves, some usage on groups, some shares inherited."""
    n = draw(st.integers(4, 16))
    parent = [-1, 0, 0] + [draw(st.integers(max(0, row - 5), row - 1)) for row in range(3, n)]
    leaf = [row not in parent for row in range(n)]
    shares = [float(draw(st.integers(1, 9))) for _ in range(n)]
    if inherit and draw(st.booleans()):
        shares[draw(st.integers(1, n - 1))] = float("nan")
    tree, order = FairshareTree.from_columns(parent, shares, is_user=leaf)
    usage = [draw(st.integers(0, 40)) if leaf[row] or draw(st.integers(0, 3)) == 0 else 0 for row in range(n)]
    return tree, np.array(usage, dtype=np.float64)[order]


def subtree(tree: FairshareTree, entry: int) -> list[int]:
    return [i for i in range(entry, tree.n_entries) if i == entry or entry in ancestors(tree, i)]


def ancestors(tree: FairshareTree, entry: int) -> list[int]:
    found = []
    while entry > 0:
        entry = int(tree.parent[entry])
        found.append(entry)
    return found


def with_shares(tree: FairshareTree, entry: int, shares: float) -> FairshareTree:
    changed = tree.shares.copy()
    changed[entry] = shares
    return FairshareTree.from_columns(
        tree.parent, changed, inherits=tree.inherits, is_group=tree.is_group, is_user=tree.is_user
    )[0]


def pick(
    drawn: tuple[FairshareTree, FloatArray], algorithm: dict[str, Any], seed: int
) -> tuple[PriorityResult, int, int]:
    tree, usage = drawn
    assume(get_algorithm(algorithm["name"]).takes_inherit or not tree.inherits.any())
    result = compute(tree, usage, algorithm=algorithm)
    leaves = np.flatnonzero(result.is_ranked)
    assume(len(leaves) >= 2)
    one, other = np.random.default_rng(seed).choice(leaves, 2, replace=False).tolist()
    return result, one, other


@examples(250)
@given(drawn=sites(), algorithm=st.sampled_from(ALGORITHMS), seed=st.integers(0, 99))
def test_the_reduced_tree_compares_two_leaves_like_the_whole_tree(
    drawn: tuple[FairshareTree, FloatArray], algorithm: dict[str, Any], seed: int
) -> None:
    result, one, other = pick(drawn, algorithm, seed)
    small = build_minimal_tree(result, one, other)
    again = small.with_more_usage(one, 0.0)
    assert small.sign(again, one, other) == compare(result, one, other)
    places = [small.place(entry) for entry in (one, other)]
    np.testing.assert_allclose(again.priority[places], result.priority[[one, other]], atol=1e-9)


@examples(60, suppress=[HealthCheck.filter_too_much])
@given(drawn=sites(), algorithm=st.sampled_from(ALGORITHMS), seed=st.integers(0, 99))
def test_the_suggested_change_is_the_least_that_reverses_the_order(
    drawn: tuple[FairshareTree, FloatArray], algorithm: dict[str, Any], seed: int
) -> None:
    result, one, other = pick(drawn, algorithm, seed)
    found = contrast(result, one, other)
    if found.turn is None:
        assert found.decided_by == "tie"
        assert result.rank[one] == result.rank[other]
        return
    assert found.ahead is not None
    assert found.behind is not None
    assert {found.ahead, found.behind} == {one, other}
    assert result.rank[found.ahead] < result.rank[found.behind]
    if found.decided_by == "level" and found.ahead_step is not None and found.behind_step is not None:
        assert found.ahead_step.priority > found.behind_step.priority
    tree, own = result.tree, drawn[1]
    ahead, behind = found.ahead, found.behind

    def turned(tree: FairshareTree, usage: FloatArray) -> bool:
        return compare(compute(tree, usage, algorithm=algorithm), behind, ahead) > 0

    def more(amount: float) -> bool:
        assert found.ahead_step is not None
        changed = own.copy()
        changed[found.ahead_step.entry] += amount
        return turned(tree, changed)

    def less(amount: float) -> bool:
        assert found.behind_step is not None
        changed, step = own.copy(), found.behind_step
        changed[subtree(tree, step.entry)] *= max(0.0, 1 - amount / step.usage)
        return turned(tree, changed)

    def fallen(amount: float) -> bool:
        assert found.ahead_step is not None
        return turned(with_shares(tree, found.ahead_step.entry, found.ahead_step.shares - amount), own)

    def risen(amount: float) -> bool:
        assert found.behind_step is not None
        return turned(with_shares(tree, found.behind_step.entry, found.behind_step.shares + amount), own)

    turn = found.turn
    if found.ahead_step is not None and turn.ahead_gains_usage is not None:
        check(more, turn.ahead_gains_usage)
    if found.ahead_step is not None and turn.ahead_shares_at_most is not None:
        check(fallen, found.ahead_step.shares - turn.ahead_shares_at_most, most=found.ahead_step.shares)
    if found.behind_step is not None and turn.behind_sheds_usage is not None:
        check(less, turn.behind_sheds_usage, most=found.behind_step.usage)
    if found.behind_step is not None and turn.behind_shares_at_least is not None:
        check(risen, turn.behind_shares_at_least - found.behind_step.shares)


def check(holds: Any, amount: float, most: float = float("inf")) -> None:
    if amount < 1e-6:
        return  # any change at all
    assert holds(min(most, amount * (1 + 1e-7)))
    assert not holds(amount * (1 - 1e-6))


def test_the_first_differing_level_decides_with_verifiable_numbers() -> None:
    #        root, A, B, a1, a2, b1
    tree, _ = FairshareTree.from_columns([-1, 0, 0, 1, 1, 2], [1, 1, 1, 1, 1, 1])
    usage = np.array([0, 0, 0, 10.0, 20.0, 50.0])
    result = compute(tree, usage, algorithm="gridwide")
    found = contrast(result, 5, 4)
    assert (found.decided_by, found.ahead, found.behind, found.level) == ("level", 4, 5, 1)
    assert found.ahead_step is not None
    assert found.behind_step is not None
    assert (found.ahead_step.entry, found.behind_step.entry) == (1, 2)
    assert found.turn is not None
    # Equal shares: A (30) falls behind B (50) once it has used 20 more, or B sheds 20.
    assert found.turn.ahead_gains_usage == pytest.approx(20, abs=1e-6)
    assert found.turn.behind_sheds_usage == pytest.approx(20, abs=1e-6)
    # t_A − 3/8 < t_B − 5/8 with t_A = a/(a + 1): from a = 3/5 down; with t_B = b/(b + 1): from b = 5/3 up.
    assert found.turn.ahead_shares_at_most == pytest.approx(3 / 5)
    assert found.turn.behind_shares_at_least == pytest.approx(5 / 3)


def test_below_a_common_group_the_level_inside_it_decides() -> None:
    tree, _ = FairshareTree.from_columns([-1, 0, 0, 1, 1, 2], [1, 1, 1, 1, 1, 1])
    found = contrast(compute(tree, [0, 0, 0, 10, 20, 50]), 3, 4)
    assert (found.decided_by, found.ahead, found.level) == ("level", 3, 2)
    assert found.turn is not None
    assert found.turn.ahead_gains_usage == pytest.approx(10, rel=1e-3)  # to the next component


def test_an_irreversible_order_has_no_suggestion() -> None:
    tree, _ = FairshareTree.from_columns([-1, 0, 0], [1, 1, 0])
    found = contrast(compute(tree, [0, 5, 5]), 1, 2)
    assert found.ahead == 1
    assert found.turn is not None
    assert found.turn.ahead_gains_usage is None  # without shares always last
    assert found.turn.behind_shares_at_least is not None


def test_an_idle_entry_cannot_reduce_usage() -> None:
    tree, _ = FairshareTree.from_columns([-1, 0, 0, 0], [1, 1, 0, 2])
    found = contrast(compute(tree, [0, 5, 0, 9], algorithm="gridwide"), 3, 2)
    assert found.turn is not None
    if found.behind == 2:
        assert found.turn.behind_sheds_usage is None


def test_a_shorter_vector_is_padded_with_the_balance() -> None:
    tree, _ = FairshareTree.from_columns([-1, 0, 0, 2, 2], [1, 1, 1, 1, 1])
    result = compute(tree, [0, 50, 0, 10, 40], algorithm="gridwide")
    found = contrast(result, 1, 3)
    assert (found.ahead, found.level, found.decided_by) == (3, 2, "level")
    assert found.behind_step is None
    assert found.turn is not None
    assert found.turn.behind_sheds_usage is None
    assert found.turn.ahead_gains_usage is not None
    assert found.turn.ahead_gains_usage < 1e-6  # any usage at all: its group, level with the other entry, falls behind


def test_ties_and_equal_vectors_have_no_suggestion() -> None:
    tree, _ = FairshareTree.from_columns([-1, 0, 0], [1, 1, 1])
    tie = contrast(compute(tree, [0, 3, 3]), 1, 2)
    assert (tie.decided_by, tie.ahead, tie.level, tie.turn) == ("tie", None, 1, None)
    tree, _ = FairshareTree.from_columns([-1, 0, 1, 1], [1, 1, float("nan"), float("nan")])
    same = contrast(compute(tree, [0, 0, 1, 2]), 2, 3)
    assert (same.decided_by, same.level) == ("tie", None)


def test_groups_are_contrasted_by_their_own_levels() -> None:
    tree, _ = FairshareTree.from_columns([-1, 0, 0, 1, 2], [1, 1, 1, 1, 1])
    for algorithm in sorted(all_algorithms()):
        found = contrast(compute(tree, [0, 0, 0, 10, 50], algorithm=algorithm), 1, 2)
        assert found.ahead == 1, algorithm
        assert found.level == 1


@examples(25)
@given(seed=st.integers(0, 10**6))
@example(213)  # both groups on target
def test_each_group_is_contrasted_in_its_own_scope(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree, _ = FairshareTree.from_columns([-1, 0, 0, 1, 1, 2, 2], rng.integers(1, 9, 7).astype(np.float64))
    usage = np.zeros((2, 7))
    usage[:, 3:] = rng.integers(1, 99, (2, 4))
    scope = [0, 1, 1, 1, 1, 1, 1]
    result = compute(tree, usage, algorithm="gridwide", scope_of_entry=scope)
    one, other = rng.choice([3, 4, 5, 6], 2, replace=False).tolist()
    found = contrast(result, one, other)
    if found.turn is None or found.turn.ahead_gains_usage is None or found.ahead_step is None:
        return
    assert found.ahead is not None
    assert found.behind is not None
    gained = found.turn.ahead_gains_usage  # a billionth where they tie in the group: near what sums round to
    for amount, turns in ((gained * (1 + 1e-6) + 1e-12, True), (max(0.0, gained * (1 - 1e-4) - 1e-12), False)):
        more = usage.copy()
        more[:, found.ahead_step.entry] += amount
        again = compute(tree, more, algorithm="gridwide", scope_of_entry=scope)
        assert (compare(again, found.behind, found.ahead) > 0) == turns


def test_a_large_group_is_contrasted_quickly() -> None:
    n = 20_000
    parent = np.concatenate(([-1, 0, 0], np.full(n, 1)))
    rng = np.random.default_rng(2)
    tree, order = FairshareTree.from_columns(parent, rng.integers(1, 9, n + 3).astype(np.float64))
    result = compute(tree, np.where(np.arange(n + 3) > 2, rng.integers(1, 99, n + 3), 0)[order])
    small = build_minimal_tree(result, 2, 10)
    assert small.tree.n_entries == 5  # root, both groups, the leaf, and all its siblings as one
    assert sweep.sibling_sum(small.tree, small.usage)[1] == pytest.approx(result.usage[1])
    assert build_minimal_tree(result, 1, 2).tree.n_entries == 3
    found = contrast(result, 10, 4321)
    assert found.turn is not None
    assert found.turn.ahead_gains_usage is not None
    assert found.ahead is not None
    assert found.behind is not None
    for factor, turns in ((1 + 1e-6, True), (1 - 1e-6, False)):
        own = np.where(result.is_ranked, result.usage, 0.0)
        own[found.ahead] += found.turn.ahead_gains_usage * factor
        again = compute(tree, own)
        assert (again.rank[found.behind] < again.rank[found.ahead]) == turns


def test_the_least_amount_is_found_to_a_trillionth() -> None:
    for edge in (1e-9, 0.3, 7.0, 1e9):
        assert least(lambda amount, edge=edge: amount > edge, 1.0, 1e12) == pytest.approx(edge, rel=1e-11)  # type: ignore[misc]
    assert least(lambda amount: False, 1.0, 1e12) is None
    assert least(lambda amount: amount >= 2.0, 2.0, None) == pytest.approx(2.0)
    assert least(lambda amount: amount > 2.0, 2.0, None) is None
    assert least(lambda amount: True, 0.0, None) is None


def test_algorithms_that_mix_levels_are_reported() -> None:
    tree, _ = FairshareTree.from_columns([-1, 0, 0, 1, 2], [1, 1, 1, 1, 1], is_user=[False] * 3 + [True] * 2)
    for name, algorithm in all_algorithms().items():
        result = compute(tree, [0, 0, 0, 1, 5], algorithm=name)
        found = contrast(result, 3, 4)
        assert found.ahead == 3
        assert found.decided_by == ("level" if decides_by_level(result) else "whole_path"), algorithm
