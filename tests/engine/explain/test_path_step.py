"""Steps from the root to an entry: the numbers of each level."""

from __future__ import annotations

import numpy as np
import pytest

from apps.engine import codecs
from apps.engine.algorithms import compute
from apps.engine.explain.path_step import step_of
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
    step = step_of(result, 2)
    assert (step.shares, step.group_shares) == (1, 8)  # lab, old and bob: dept dissolved
    assert (step.usage, step.group_usage) == (5, 8 + 5 + 3)
    assert step.target == step.shares / step.group_shares
    assert step.actual == step.usage / step.group_usage
    assert step.deviation == pytest.approx(100 * (step.target - step.actual))


def test_an_inheriting_entry_is_a_step_without_numbers() -> None:
    tree, _ = FairshareTree.from_columns(PARENT, SHARES, names=NAMES)
    result = compute(tree, [0, 1, 5, 2, 7, 3, 4])
    dept, bob = (step_of(result, entry) for entry in (3, 5))
    assert (dept.competes, dept.usage, dept.target, dept.scalar) == (False, 9, 0, -1)
    assert bob.competes
    assert [step.scalar for step in (dept, bob) if step.competes] == result.vector(5)
    assert result.vector(6) == []


def test_global_target_is_the_product_of_the_steps() -> None:
    tree, _ = FairshareTree.from_columns(PARENT, [1, 3, 1, 2, 2, 4, 1])
    result = compute(tree, np.ones(7))
    for entry in range(1, 7):
        steps = [step_of(result, at) for at in codecs.lineage(tree, entry).tolist()]
        assert steps[-1].target_global == pytest.approx(np.prod([step.target for step in steps]))


def test_operators_can_rank_a_smaller_deviation_in_points_first() -> None:
    tree, _ = FairshareTree.from_columns([-1, 0, 0, 0], [1, 60, 10, 30])
    result = compute(tree, [0, 40, 2, 58])
    second, first = (step_of(result, entry) for entry in (1, 2))
    assert result.rank[[1, 2]].tolist() == [2, 1]
    assert (first.deviation, second.deviation) == pytest.approx((8, 20))
