"""Shares shown beside their target never contradict the difference that is shown with them."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apps.dashboard.figures.bars import State, Tolerance
from apps.dashboard.shell import presentation
from apps.figures.convergence.labels import short_balance, used_words_of
from apps.priorities.sentences.numbers import NBSP, compare_shares

SHARES = st.one_of(st.floats(0, 1), st.integers(0, 10_000).map(lambda n: n / 10_000))


def read(text: str) -> Decimal:
    return Decimal(text.removesuffix(f"{NBSP}%").lstrip("<").replace(",", ""))


@pytest.mark.parametrize(
    ("actual", "target", "shown"),
    [
        (0.1254, 0.1246, ("12.54", "12.46", "0.08")),  # 12.5 of 12.5, and over by 0.1
        (0.5, 0.4, ("50.0", "40.0", "10.0")),
        (0.3364, 0.3006, ("33.64", "30.06", "3.58")),  # 33.6 − 30.1 is 3.5, the difference 3.6
    ],
)
def test_both_shares_and_their_difference_have_the_decimals_that_they_need(
    actual: float, target: float, shown: tuple[str, str, str]
) -> None:
    shares = compare_shares(actual, target)
    assert (shares.actual, shares.target, shares.points) == (f"{shown[0]}{NBSP}%", f"{shown[1]}{NBSP}%", shown[2])


@given(actual=SHARES, target=SHARES)
@example(actual=0.1254, target=0.1246)
@example(actual=0.0004, target=0.0)
def test_the_difference_shown_is_that_of_the_shares_shown(actual: float, target: float) -> None:
    shares = compare_shares(actual, target)
    if not shares.actual.startswith("<") and not shares.target.startswith("<"):
        assert abs(read(shares.actual) - read(shares.target)) == read(shares.points)
    if abs(actual - target) >= 1e-5:
        assert shares.actual != shares.target
        assert read(shares.points) > 0


@given(actual=SHARES, target=SHARES)
@example(actual=0.1254, target=0.1246)
def test_balances_and_texts_of_figures_show_the_same_difference(actual: float, target: float) -> None:
    shares = compare_shares(actual, target)
    balance = presentation.balance(actual, target, tolerance=Tolerance(0.0, 1e-5))
    state = {State.OVER: "over", State.UNDER: "under"}.get(balance.state)
    if state is None:
        return
    assert balance.amount == shares.points
    words = used_words_of(np.array([actual]), np.array([target]), [state])[0]
    assert words == f"used {shares.actual}, target {shares.target}, {shares.points_phrase} {state}"
    assert short_balance(actual, target, state).split()[1] == shares.points
