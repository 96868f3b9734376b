"""The walk from the root to an entry adds up to its priority."""

from __future__ import annotations

import numpy as np
import pytest

from apps.engine.algorithms import compute
from apps.engine.explain import walk
from apps.engine.tree import FairshareTree

INHERIT = float("nan")
#        0     1     2     3        4     5     6
NAMES = ["root", "lab", "old", "dept", "ann", "bob", "cy"]
PARENT = [-1, 0, 0, 0, 1, 3, 3]
SHARES = [1, 3, 1, INHERIT, 2, 4, INHERIT]


def test_each_step_shows_the_division_behind_target_and_actual() -> None:
    tree, order = FairshareTree.from_columns(PARENT, SHARES, names=NAMES)
    assert order.tolist() == list(range(7))
    result = compute(tree, [0, 1, 5, 2, 7, 3, 4])
    (step,) = walk(result, 2)
    assert (step.shares, step.group_shares, step.n_competing) == (1, 8, 3)  # lab, old and bob: dept dissolved
    assert (step.usage, step.group_usage) == (5, 8 + 5 + 3)
    assert step.target == step.shares / step.group_shares
    assert step.actual == step.usage / step.group_usage
    assert step.deviation == pytest.approx(100 * (step.target - step.actual))


def test_an_inheriting_entry_is_a_step_without_numbers() -> None:
    tree, _ = FairshareTree.from_columns(PARENT, SHARES, names=NAMES)
    result = compute(tree, [0, 1, 5, 2, 7, 3, 4])
    dept, bob = walk(result, 5)
    assert (dept.competes, dept.usage, dept.target, dept.scalar) == (False, 9, 0, -1)
    assert bob.competes
    assert [step.scalar for step in (dept, bob) if step.competes] == result.vector(5)
    assert result.vector(6) == []
    assert walk(result, 0) == []


def test_global_target_is_the_product_of_the_steps() -> None:
    tree, _ = FairshareTree.from_columns(PARENT, [1, 3, 1, 2, 2, 4, 1])
    result = compute(tree, np.ones(7))
    for entry in range(1, 7):
        steps = walk(result, entry)
        assert steps[-1].target_global == pytest.approx(np.prod([step.target for step in steps]))


def test_each_step_names_the_sibling_directly_ahead_and_by_how_much() -> None:
    tree, _ = FairshareTree.from_columns([-1, 0, 0, 0, 0], [1, 4, 3, 2, 1], is_reserve=[False] * 4 + [True])
    result = compute(tree, [0, 6, 3, 1, 0])
    last, middle, first = (walk(result, entry)[0] for entry in (1, 2, 3))
    assert [step.n_ahead for step in (first, middle, last)] == [0, 1, 2]  # the reserve, unused, is ahead of no entry
    assert first.next_ahead is None
    assert first.ahead_by is None
    assert first.ahead_by_points is None
    assert (middle.next_ahead, last.next_ahead) == (3, 2)
    assert last.ahead_by == pytest.approx(result.priority[2] - result.priority[1])
    assert last.ahead_by_points == pytest.approx(result.deviation[2] - result.deviation[1])


def test_siblings_with_equal_components_are_tied() -> None:
    tree, _ = FairshareTree.from_columns([-1, 0, 0, 0], [1, 1, 1, 1])
    fine = compute(tree, [0, 1000, 1001, 5000])
    coarse = compute(tree, [0, 1000, 1001, 5000], algorithm={"name": "aequus", "resolution": 10})
    assert (walk(fine, 2)[0].n_ahead, walk(fine, 2)[0].n_tied) == (1, 0)
    assert (walk(coarse, 2)[0].n_ahead, walk(coarse, 2)[0].n_tied) == (0, 1)
    deviations = compute(tree, [0, 1000, 1000 + 1e-9, 5000], algorithm="gridwide")
    assert (walk(deviations, 2)[0].n_ahead, walk(deviations, 2)[0].n_tied) == (0, 1)


def test_operators_can_rank_a_smaller_deviation_in_points_first() -> None:
    tree, _ = FairshareTree.from_columns([-1, 0, 0, 0], [1, 60, 10, 30])
    step = walk(compute(tree, [0, 40, 2, 58]), 1)[0]
    assert step.next_ahead == 2
    assert step.ahead_by is not None
    assert step.ahead_by > 0
    assert step.ahead_by_points == pytest.approx(8 - 20)
