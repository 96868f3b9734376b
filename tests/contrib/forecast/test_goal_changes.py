"""Goals against exhaustive search on small groups: what is found reaches them, and "not possible" is true."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from apps.contrib.forecast.goal_changes import (
    Contest,
    Rule,
    by_dilution,
    by_equal_parts,
    by_unused,
    nearest_of,
    refund,
    round_beyond,
    targets_of,
)
from apps.engine.errors import BadParameter
from tests.each_case import each_case

PARTS = 60  # of a whole: the grid that is searched


def _case(seed: int) -> tuple[Contest, Rule]:
    """Three entries with shares on the grid; the bound and the tolerance are multiples of its step too."""
    draw = Random(seed)
    cuts = sorted(draw.sample(range(1, PARTS), 2))
    shares = np.diff([0, *cuts, PARTS]).astype(np.float64)
    usage = np.array([draw.choice([0.0, 1.0, 2.0, 5.0, 9.0, 20.0]) for _ in range(3)])
    usage[draw.randrange(3)] += 1.0
    contest = Contest(shares, usage, float(usage.sum()), draw.randrange(3), np.ones(3, dtype=np.bool_))
    rule = Rule(draw.choice([0.0, 0.1]), draw.choice([0.5, 2.0]) / PARTS, draw.choice([0, 1, 3, 6, 20]) / PARTS)
    return contest, rule


def _fits(contest: Contest, rule: Rule, shares: np.ndarray) -> bool:
    """The goal and the bound, written out."""
    at, before, after = contest.entry, contest.shares / contest.shares.sum(), shares / shares.sum()
    actual = contest.usage[at] / contest.usage.sum() if contest.usage.sum() else 0.0
    near = abs(actual - after[at]) <= max(rule.relative * after[at], rule.points) + 1e-9
    return bool(near and all(before[n] - after[n] <= rule.most_lost + 1e-9 for n in range(3) if n != at))


def _exists(contest: Contest, rule: Rule) -> bool:
    """Any division of the whole into multiples of a 240th."""
    n = 4 * PARTS
    return any(
        _fits(contest, rule, np.array([a, b, n - a - b], dtype=np.float64))
        for a, b in product(range(n + 1), repeat=2)
        if a + b <= n
    )


@pytest.mark.parametrize("seed", range(8))
def test_the_solver_finds_shares_if_exhaustive_search_does(seed: int) -> None:
    contest, rule = _case(seed)
    found = [search(contest, rule) for search in (by_dilution, by_unused, by_equal_parts)]
    for one in found:
        assert not one.is_reached or _fits(contest, rule, one.shares)
    if _exists(contest, rule):
        assert any(one.is_reached for one in found)
    # The other way round the grid may miss a narrow band: then what was found was checked above.


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(8, 120))
def test_the_solver_finds_shares_if_exhaustive_search_does_deep(seed: int) -> None:
    test_the_solver_finds_shares_if_exhaustive_search_does(seed)


def _refund_fits(contest: Contest, rule: Rule, amount: float) -> bool:
    at, usage = contest.entry, contest.usage.copy()
    usage[at] -= amount
    before, after = contest.usage / contest.usage.sum(), usage / usage.sum() if usage.sum() else usage * 0
    target = contest.shares[at] / contest.shares.sum()
    near = abs(after[at] - target) <= max(rule.relative * target, rule.points) + 1e-9
    return bool(near and all(after[n] - before[n] <= rule.most_lost + 1e-9 for n in range(3) if n != at))


@each_case("seed", range(200))
def test_the_solver_finds_a_credit_if_exhaustive_search_does(seed: int) -> None:
    contest, rule = _case(seed)
    found, used = refund(contest, rule), float(contest.usage[contest.entry])
    assert 0 <= found.amount <= used
    if found.is_reached:
        assert _refund_fits(contest, rule, found.amount)
    elif contest.actual[contest.entry] > contest.target[contest.entry]:
        assert not any(_refund_fits(contest, rule, used * n / 2_000) for n in range(1, 2_000))


def test_a_credit_is_limited_by_the_loss_of_other_entries() -> None:
    shares, used = np.array([10.0, *[1.0] * 10]), np.array([30.0, *[1.0] * 10])
    group = Contest(shares, used, 40.0, 0, np.ones(11, dtype=np.bool_))
    above = Contest(np.array([1.0, 1.0]), np.array([40.0, 60.0]), 100.0, 0, np.ones(2, dtype=np.bool_))
    rule = Rule(0.0, 0.0, 1.0)
    assert refund(group, rule).amount == pytest.approx(20.0)  # 10 of 20
    found = refund(group, Rule(0.0, 0.0, 0.3), [above])
    # The sibling of the group goes from 60 % to 60/(100 − 20) = 75 %: within 30 points, and not within 10.
    assert found.is_reached
    assert found.amount == pytest.approx(20.0, rel=1e-6)
    close = refund(group, Rule(0.0, 0.0, 0.1), [above])
    assert not close.is_reached
    assert 60 / (100 - close.amount) == pytest.approx(0.7)


def test_unused_shares_come_from_entries_that_do_not_use_them() -> None:
    contest = Contest(np.array([20.0, 50.0, 30.0]), np.array([30.0, 30.0, 40.0]), 100.0, 0, np.ones(3, dtype=np.bool_))
    found = by_unused(contest, Rule(0.0, 0.005, 0.2))
    assert found.is_reached
    assert found.shares[2] == 30.0
    assert found.shares[1] < 50.0
    assert targets_of(found.shares)[0] == pytest.approx(0.295, abs=0.0051)


def test_shares_outside_the_rights_stay() -> None:
    contest = Contest(
        np.array([20.0, 50.0, 30.0]), np.array([30.0, 30.0, 40.0]), 100.0, 0, np.array([True, False, True])
    )
    for search in (by_unused, by_equal_parts):
        assert search(contest, Rule(0.0, 0.005, 0.2)).shares[1] == 50.0


def test_a_bound_of_the_target_is_respected_even_if_it_excludes_the_goal() -> None:
    contest = Contest(np.array([20.0, 80.0]), np.array([60.0, 40.0]), 100.0, 0, np.ones(2, dtype=np.bool_))
    found = by_dilution(contest, Rule(0.0, 0.01, 1.0, most_target=0.3))
    assert not found.is_reached
    assert targets_of(found.shares)[0] <= 0.3 + 1e-9


@pytest.mark.parametrize(
    ("arguments", "place"),
    [((0.1, 0.005, -0.1), "most_lost"), ((0.1, 0.005, 0.1, 0.5, 0.4), "least_target"), ((-1, 0, 0), "relative")],
)
def test_contradictory_bounds_are_refused(arguments: tuple[float, ...], place: str) -> None:
    with pytest.raises(BadParameter) as refused:
        Rule(*arguments)
    assert refused.value.place == place


def test_solutions_have_as_few_digits_as_possible() -> None:
    assert round_beyond(29.384726, lambda one: one <= 29.5, up=True) == 29.4
    assert round_beyond(29.384726, lambda one: one >= 29, up=False) == 29
    assert round_beyond(29.384726, lambda one: False, up=True) == 29.384726
    assert nearest_of([1, 2, 4, 8], [True, False, True, True], 2) == 0  # of two that are as near, the smaller
    assert nearest_of([1, 2], [False, False], 2) is None
