"""The one criterion of advice, experiments and evidence, on trees whose fair use follows by hand."""

from __future__ import annotations

import numpy as np
import pytest

from apps.contrib.lab.comparison.recorded_order import explains_waits
from apps.contrib.lab.fair_use import fair_use, kept_from
from apps.engine.convergence import water_fill
from apps.engine.target_state import slack_of
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


HOURS = np.array([6.0, 12.0, 18.0])


def kept(used: list[list[float]], waiting: list[float], *, points: float = 1.0) -> float:
    """Of the root of 60, 30 and 10 shares; used: by time, waiting: work at each time."""
    tree, _ = FairshareTree.from_columns(np.array([-1, 0, 0, 0]), np.array([1.0, 60.0, 30.0, 10.0]))
    own = np.array([[sum(row), *row] for row in used])
    asked = np.array([sum(waiting), *waiting])
    hours = kept_from(
        tree, own, own + asked, HOURS, lambda fair, is_leaf: slack_of(fair, {"relative": 0.0, "points": points})
    )
    assert np.isnan(hours[1:]).all()
    return float(hours[0])


@pytest.mark.parametrize(
    ("used", "waiting", "hour"),
    [
        ([[0, 60, 40]] * 3, [0, 500, 500], np.inf),  # 30 points over their targets, and 15 from fair use
        ([[0, 75, 25]] * 3, [0, 500, 500], 6.0),  # what the idle group leaves, in proportion
        ([[0, 60, 40], [0, 75, 25], [0, 74.5, 25.5]], [0, 500, 500], 12.0),
        ([[0, 75, 25], [0, 75, 25], [0, 72, 28]], [0, 500, 500], np.inf),
        ([[60, 30, 10]] * 3, [500, 500, 500], 6.0),
        ([[0, 75, 25]] * 3, [500, 500, 500], np.inf),  # the first group waits
        ([[0, 40, 60]] * 3, [0, 0, 500], 6.0),  # the second one asks for no more
        ([[0, 0, 0], [0, 0, 0], [60, 30, 10]], [500, 500, 500], 6.0),
        ([[60, 30, 10], [60, 30, 10], [0, 0, 0]], [0, 0, 0], np.nan),
    ],
)
def test_fair_use_is_kept_from_the_hour_on_after_which_each_has_its_target_as_far_as_its_demand_allows(
    used: list[list[float]], waiting: list[float], hour: float
) -> None:
    assert kept(used, waiting) == pytest.approx(hour, nan_ok=True)


def test_the_fair_part_is_that_of_the_slow_computation() -> None:
    """Exactly that is inside a band without width, and a share that is moved isn't."""
    random = np.random.default_rng(5)
    for _n in range(200):
        shares = random.choice([0.0, 1.0, 2.0, 5.0], 6)
        shares[0] = 3.0
        tree, _ = FairshareTree.from_columns(np.array([-1, *[0] * 6]), np.array([1.0, *shares]))
        asked = random.choice([0.0, 1.0, 10.0, 40.0], 6) + random.random(6)
        fair = water_fill(shares / shares.sum(), asked, 20.0)
        used, demand = (np.array([[sum(row), *row]]) for row in (fair, np.maximum(asked, fair)))
        at_h = np.array([1.0])
        assert kept_from(tree, used, demand, at_h, lambda part, is_leaf: part * 0.0 + 1e-9)[0] == 1.0
        short = np.flatnonzero((fair > 1.0) & (asked > fair + 1.0))
        if len(short) > 1:
            used[0, 1 + short[:2]] += [0.5, -0.5]
            assert kept_from(tree, used, demand, at_h, lambda part, is_leaf: part * 0.0 + 1e-9)[0] == np.inf
