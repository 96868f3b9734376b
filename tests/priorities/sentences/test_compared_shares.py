"""Shares shown beside their target never contradict the difference that is shown with them."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apps.priorities.sentences.catalogue import build_message
from apps.priorities.sentences.numbers import NBSP, ChangedShares, change_shares, compare_shares, decimals_of_column
from apps.web.figures.used_and_target import short_balance, used_words_of
from apps.web.shell import presentation
from apps.web.svg.bars import State, Tolerance
from tests.each_case import each_case

SHARES = st.one_of(st.floats(0, 1), st.integers(0, 10_000).map(lambda n: n / 10_000))


def read(text: str) -> Decimal:
    return Decimal(text.removesuffix(f"{NBSP}%").lstrip("<").replace(",", ""))


@pytest.mark.parametrize(
    ("actual", "target", "shown"),
    [
        (0.1254, 0.1246, ("12.54", "12.46", "0.08")),  # 12.5 of 12.5, and over by 0.1
        (0.5, 0.4, ("50.0", "40.0", "10.0")),
        (0.3364, 0.3006, ("33.6", "30.1", "3.5")),  # the difference of what is shown
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


MOVES = json.loads(Path(__file__).with_name("moves.json").read_text())


@each_case("move", MOVES, ids=lambda move: f"{move['from']}-{move['to']}")
def test_a_share_before_and_after_and_its_change_have_the_decimals_that_they_need(move: dict[str, Any]) -> None:
    shares = change_shares(move["from"], move["to"])
    assert [text.replace(NBSP, " ") for text in (shares.before, shares.after, shares.change)] == move["shown"]


def test_a_share_that_is_unknown_before_or_after_counts_as_0() -> None:
    assert change_shares(None, 0.2) == ChangedShares("\u2013", f"20.0{NBSP}%", "+20.0", 1)
    assert change_shares(0.2, None) == ChangedShares(f"20.0{NBSP}%", "\u2013", "\u221220.0", 1)


@given(before=SHARES, after=SHARES)
@example(before=0.0684, after=0.0675)
def test_the_change_shown_is_that_of_the_shares_shown(before: float, after: float) -> None:
    shares = change_shares(before, after)
    if shares.change.startswith("<"):  # a change that vanishes isn't ±0
        assert shares.before == shares.after
        assert abs(before - after) < 1e-5
        return
    change = Decimal(shares.change.replace("\u2212", "-").replace("±", ""))
    if shares.change == "±0":
        assert before == pytest.approx(after, abs=1e-12)
    if not shares.before.startswith("<") and not shares.after.startswith("<"):
        assert read(shares.after) - read(shares.before) == change
    if abs(before - after) >= 1e-5:
        assert shares.before != shares.after
        assert (change > 0) == (after > before)


@given(actual=SHARES, target=SHARES)
@example(actual=0.1254, target=0.1246)
def test_balances_and_texts_of_figures_show_the_same_difference(actual: float, target: float) -> None:
    shares = compare_shares(actual, target)
    balance = presentation.balance(actual, target, tolerance=Tolerance(0.0, 1e-5))
    state = {State.OVER: "over", State.UNDER: "under"}.get(balance.state)
    if state is None:
        return
    assert balance.amount == shares.points
    words = used_words_of(np.array([actual]), np.array([target]), [state], np.array([1e-5]))[0]
    assert words == f"used {shares.actual}, target {shares.target}, {shares.points_phrase} {state}"
    assert short_balance(actual, target, state).split()[1] == shares.points


def test_numbers_of_one_pair_look_alike_in_a_sentence_and_in_a_row() -> None:
    shares = compare_shares(0.0367, 0.0442)
    step = {"name": "atlas", "parent": "grid", "actual": 0.0367, "target": 0.0442}
    text = build_message("contrast.one.under", **step, points=0.75).text
    assert (shares.actual, shares.target, shares.points) == (f"3.7{NBSP}%", f"4.4{NBSP}%", "0.7")
    assert {shares.actual, shares.target} <= set(re.findall(rf"[0-9.]+{NBSP}%", text))
    assert "0.7 points" in text


@given(actual=SHARES, target=SHARES, points=st.floats(0, 100))
@example(actual=0.3364, target=0.3006, points=3.58)
def test_the_difference_in_a_sentence_is_that_of_its_shares(actual: float, target: float, points: float) -> None:
    shares = compare_shares(actual, target)
    text = build_message("contrast.one.over", name="a", parent="b", actual=actual, target=target, points=points).text
    assert shares.actual in text
    assert shares.target in text
    assert shares.points_phrase in text


@given(st.lists(st.tuples(SHARES, SHARES), max_size=40))
@example([(0.5, 0.4), (0.1254, 0.1246)])
@example([(0.0708, 0.06235), (0.08, 0.071)])
def test_all_rows_of_a_column_have_equal_decimals_and_no_row_contradicts_its_difference(
    pairs: list[tuple[float, float]],
) -> None:
    tolerance = Tolerance(0.0, 1e-5)
    decimals = decimals_of_column(pairs)
    needed = 1
    for actual, target in pairs:
        shares = compare_shares(actual, target, decimals=decimals)
        balance = presentation.balance(actual, target, tolerance=tolerance, decimals=decimals)
        assert {len(text.removesuffix(f"{NBSP}%").partition(".")[2]) for text in (shares.actual, shares.target)} == {
            decimals
        }
        if not shares.actual.startswith("<") and not shares.target.startswith("<"):
            assert abs(read(shares.actual) - read(shares.target)) == read(shares.points)
        if balance.is_off_target:
            assert balance.amount == shares.points
            assert read(shares.points) > 0
        if abs(actual - target) >= 5e-6:
            needed = max(needed, next((n for n in (1, 2) if round(actual * 100, n) != round(target * 100, n)), 3))
    assert decimals == needed, "the fewest"


@pytest.mark.parametrize(
    ("pairs", "decimals"),
    [
        ([], 1),
        ([(None, 0.5), (0.5, None), (float("nan"), 0.5)], 1),
        ([(0.0708, 0.06235), (0.08, 0.071)], 1),
        ([(0.5, 0.4), (0.1254, 0.1246)], 2),
        ([(0.5, 0.4), (0.12541, 0.12542)], 3),
    ],
)
def test_a_column_has_the_decimals_of_the_row_that_needs_most(
    pairs: list[tuple[float | None, float | None]], decimals: int
) -> None:
    assert decimals_of_column(pairs) == decimals
