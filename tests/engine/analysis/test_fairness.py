"""Fairness indices against their definitions in fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from apps.engine import convergence
from apps.engine.errors import BadParameter
from tests.examples import examples
from tests.oracles import analysis as oracles_analysis

AMOUNT = st.integers(0, 50)
ROWS = st.lists(st.tuples(AMOUNT, AMOUNT, AMOUNT), min_size=1, max_size=8)


@examples(200)
@given(rows=ROWS)
def test_indices_equal_their_definitions(rows: list[tuple[int, int, int]]) -> None:
    x, w, _ = (list(map(Fraction, column)) for column in zip(*rows, strict=True))
    assert convergence.jain_index([float(v) for v in x]) == pytest.approx(float(oracles_analysis.jain(x)))
    found = convergence.gini_index([float(v) for v in x], [float(v) for v in w])
    assert found == pytest.approx(float(oracles_analysis.gini(x, w)), abs=1e-12)


@examples(200)
@given(rows=ROWS, capacity=st.integers(0, 200))
def test_water_filling_equals_its_definition(rows: list[tuple[int, int, int]], capacity: int) -> None:
    t, demand, _ = zip(*rows, strict=True)
    found = convergence.water_fill(t, demand, capacity)
    expected = oracles_analysis.poured(list(map(Fraction, t)), list(map(Fraction, demand)), Fraction(capacity))
    np.testing.assert_allclose(found, [float(v) for v in expected], atol=1e-9)


@examples(200)
@given(rows=ROWS)
def test_indices_stay_in_range_and_are_independent_of_units(rows: list[tuple[int, int, int]]) -> None:
    t, used, demand = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    found, scaled = convergence.fairness(t, used, demand), convergence.fairness(t * 3, used * 7, demand * 7)
    n = int((t > 0).sum())
    assert found.demand_error_points is not None
    assert 1 / max(n, 1) - 1e-12 <= found.jain <= 1 + 1e-12
    assert 0 <= found.gini <= 1
    for points in (found.deviation_points, found.misplaced_points, found.demand_error_points):
        assert -1e-9 <= points <= 100 + 1e-9
    for name in ("jain", "gini", "deviation_points", "misplaced_points", "demand_error_points"):
        assert getattr(scaled, name) == pytest.approx(getattr(found, name), abs=1e-9)


@given(t=st.lists(st.integers(1, 50), min_size=1, max_size=8))
def test_usage_on_target_is_perfectly_fair(t: list[int]) -> None:
    found = convergence.fairness(t, t, t)
    assert found.jain == pytest.approx(1)
    for name in ("gini", "deviation_points", "misplaced_points", "demand_error_points"):
        assert getattr(found, name) == pytest.approx(0, abs=1e-9)


@given(rows=st.lists(st.tuples(st.integers(1, 50), AMOUNT), min_size=1, max_size=6))
def test_splitting_an_entry_in_halves_changes_no_share_weighted_index(rows: list[tuple[int, int]]) -> None:
    t, used = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    whole = convergence.fairness(t, used)
    halves = convergence.fairness(np.repeat(t / 2, 2), np.repeat(used / 2, 2))
    assert halves.gini == pytest.approx(whole.gini, abs=1e-9)
    assert halves.misplaced_points == pytest.approx(whole.misplaced_points, abs=1e-9)


def test_an_idle_entry_is_not_misplaced_usage() -> None:
    found = convergence.fairness([50, 30, 20], [0, 60, 40], demand=[0, 100, 100])
    assert found.misplaced_points == pytest.approx(50)
    assert found.demand_error_points == pytest.approx(0)
    starved = convergence.fairness([50, 30, 20], [0, 60, 40], demand=[100, 100, 100])
    assert starved.demand_error_points == pytest.approx(50)
    equal_points = convergence.fairness([50, 30, 20], [0, 55, 45], demand=[0, 100, 100])
    assert equal_points.demand_error_points == pytest.approx(5)


def test_the_weighted_deviation_counts_large_entries_by_their_size() -> None:
    found = convergence.fairness([80, 20], [70, 30])
    assert found.deviation_points == pytest.approx(10)
    assert found.misplaced_points == pytest.approx(10)
    assert convergence.fairness([1, 1, 1], [3, 0, 0]).jain == pytest.approx(1 / 3)
    assert convergence.fairness([1, 1, 1], [3, 0, 0]).gini == pytest.approx(2 / 3)


def test_zero_usage_and_zero_targets_give_numbers() -> None:
    nothing = convergence.fairness([1, 1], [0, 0], [0, 0])
    assert (nothing.jain, nothing.gini, nothing.demand_error_points) == (1.0, 0.0, 0.0)
    without_shares = convergence.fairness([0, 0], [1, 2])
    assert (without_shares.jain, without_shares.gini, without_shares.deviation_points) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize("bad", [[-1.0, 2.0], [float("nan"), 1.0], [float("inf"), 1.0], [[1.0, 2.0]]])
def test_invalid_amounts_are_rejected(bad: list[float]) -> None:
    with pytest.raises(BadParameter, match="≥ 0"):
        convergence.fairness(bad, [1.0, 1.0])
    with pytest.raises(BadParameter, match="targets"):
        convergence.fairness([1.0, 1.0, 1.0], [1.0, 1.0])


@given(rows=ROWS)
def test_huge_and_tiny_amounts_give_the_same_indices(rows: list[tuple[int, int, int]]) -> None:
    t, used, _ = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    assume(used.sum() > 0)
    for scale in (1e-300, 1e300):
        assert convergence.fairness(t, used * scale).jain == pytest.approx(convergence.fairness(t, used).jain)
