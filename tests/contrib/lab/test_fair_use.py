"""The one criterion of advice, experiments and evidence, on trees whose fair use follows by hand."""

from __future__ import annotations

import numpy as np
import pytest

from apps.contrib.lab.fair_use import fair_use
from apps.contrib.lab.model_waits import explains_waits
from apps.engine.tree import FairshareTree


def test_the_share_of_an_idle_group_is_divided_in_proportion() -> None:
    """60, 30 and 10 shares, the first idle: 75 and 25 % are fair, and 60 and 40 % are 15 points away."""
    tree, _ = FairshareTree.from_columns(np.array([-1, 0, 0, 0]), np.array([1.0, 60.0, 30.0, 10.0]))
    used = np.array([[0.0, 0.0, 75.0, 25.0], [0.0, 0.0, 60.0, 40.0]])
    assert fair_use(tree, used, used + np.array([0.0, 0.0, 500.0, 500.0])).at.tolist() == pytest.approx([0.0, 15.0])


def test_nobody_is_owed_what_nobody_asked_for() -> None:
    tree, _ = FairshareTree.from_columns(np.array([-1, 0, 0]), np.ones(3))
    used = np.array([[0.0, 10.0, 90.0]])
    assert fair_use(tree, used, used).at.tolist() == [0.0]
    assert fair_use(tree, used, used + np.array([0.0, 80.0, 0.0])).at.tolist() == pytest.approx([40.0])


def test_every_level_counts_by_its_usage_and_each_group_has_its_own_distance() -> None:
    """Groups 1 and 2 on target; of group 1, whose members have equal shares, one member has all."""
    parents = np.array([-1, 0, 0, 1, 1, 2, 2])
    tree, _ = FairshareTree.from_columns(parents, np.ones(7))
    used = np.array([[0.0, 0.0, 0.0, 50.0, 0.0, 25.0, 25.0]])
    found = fair_use(tree, used, used + 100.0)
    assert found.at.tolist() == pytest.approx([(100 * 0 + 50 * 50 + 50 * 0) / 200])
    assert found.groups[[0, 1, 2]].tolist() == pytest.approx([0.0, 50.0, 0.0])
    assert np.isnan(found.groups[3:]).all()


def test_without_usage_there_is_no_distance() -> None:
    tree, _ = FairshareTree.from_columns(np.array([-1, 0, 0]), np.ones(3))
    assert np.isnan(fair_use(tree, np.zeros((2, 3)), np.zeros((2, 3))).mean)


@pytest.mark.parametrize(
    ("wait_s", "model_wait_s", "expected"),
    [(1_680.0, 0.0, False), (500.0, 0.0, True), (4_000.0, 2_000.0, True), (4_000.0, 1_999.0, False), (None, 0.0, True)],
)
def test_a_replay_with_less_than_half_of_the_real_waits_explains_nothing(
    wait_s: float | None, model_wait_s: float | None, expected: bool
) -> None:
    assert explains_waits(wait_s, model_wait_s) == expected
