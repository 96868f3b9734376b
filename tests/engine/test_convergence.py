"""Figures of merit against their slow twin, and what they say of cases one can do in one's head."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.engine import convergence
from apps.engine.convergence import DayState, HalfTime, Outcome
from apps.engine.entitlement import entitlement
from apps.engine.target_state import is_on_target, slack_of
from tests.examples import examples
from tests.oracles import convergence as twin

STEPS = st.sampled_from([0.0, 0.05, 0.1, 0.25, 0.3, 0.5, 0.75, 1.0])


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    """Some entries over some days, with targets that change now and then."""
    n, days = draw(st.integers(1, 4)), draw(st.integers(1, 12))

    def table(of: st.SearchStrategy[Any]) -> list[list[Any]]:
        return [draw(st.lists(of, min_size=days, max_size=days)) for _ in range(n)]

    targets = []
    for _ in range(n):
        row = [draw(STEPS)]
        while len(row) < days:
            row.append(draw(STEPS) if draw(st.integers(0, 3)) == 0 else row[-1])
        targets.append(row)
    return {
        "actual": table(STEPS),
        "target": targets,
        "used": table(st.sampled_from([0.0, 0.0, 1.5, 7.0])),
        "more": table(st.sampled_from([0.0, 2.0])),
        "waited": table(st.sampled_from([0.0, 0.0, 3.0])),
        "knows": table(st.booleans()),
        "counts": table(st.booleans()),
        "n_days": draw(st.integers(1, 14)),
        "relative": draw(st.sampled_from([0.0, 0.1, 0.5])),
        "points": draw(st.sampled_from([0.0, 0.5, 5.0])),
    }


@examples(200)
@given(tables())
def test_every_figure_equals_the_oracle(case: dict[str, Any]) -> None:
    actual, target, used = (np.array(case[name], float) for name in ("actual", "target", "used"))
    counts, peers = np.array(case["counts"], bool), used + np.array(case["more"], float)
    tolerance = slack_of(target, case)
    recent = convergence.actual_share(*(convergence.trailing_sum(each, case["n_days"]) for each in (used, peers)))
    for i in range(len(actual)):
        wanted = [twin.tolerance(each, case["relative"], case["points"]) for each in case["target"][i]]
        assert tolerance[i].tolist() == wanted
        shares = twin.share(case["used"][i], peers[i].tolist(), case["n_days"])
        assert recent[i] == pytest.approx(shares, abs=1e-12)
        halves = [
            (each.at, each.outcome, each.days) for each in convergence.half_times(actual[i], target[i], tolerance[i])
        ]
        assert halves == twin.half_times(case["actual"][i], case["target"][i], wanted)
    inside = is_on_target(actual, target, tolerance)
    assert inside.tolist() == list(map(twin.inside, case["actual"], case["target"], tolerance.tolist()))
    mean, there = convergence.mean_deviation(actual, target, counts)
    _same(mean, there, twin.weighted(np.abs(actual - target).tolist(), case["target"], case["counts"]))


@examples(200)
@given(tables())
def test_states_of_days_and_demand_equal_the_oracle(case: dict[str, Any]) -> None:
    actual, target = np.array(case["actual"], float), np.array(case["target"], float)
    counts = np.array(case["counts"], bool)
    tolerance = slack_of(target, case)
    states = convergence.day_states(
        actual=actual,
        target=target,
        tolerance=tolerance,
        used=np.array(case["used"], float),
        waited=np.array(case["waited"], float),
        knows_waiting=np.array(case["knows"], bool),
        competes=counts,
    )
    names = [
        [
            twin.state(
                actual=case["actual"][i][day],
                target=case["target"][i][day],
                band=tolerance[i, day],
                used=case["used"][i][day],
                waited=case["waited"][i][day],
                knows=case["knows"][i][day],
                competes=case["counts"][i][day],
            )
            for day in range(actual.shape[1])
        ]
        for i in range(len(actual))
    ]
    assert [[DayState(code).name for code in row] for row in states.tolist()] == names
    days = [
        twin.demand_gap(actual[:, day].tolist(), target[:, day].tolist(), [row[day] for row in names])
        for day in range(actual.shape[1])
    ]
    gaps = np.array(days).T
    assert convergence.demand_aware_gap(actual, target, states) == pytest.approx(gaps, abs=1e-15)
    error, there = convergence.demand_aware_error(actual, target, states, counts)
    _same(error, there, twin.weighted(gaps.tolist(), case["target"], case["counts"]))


def _same(found: Any, there: Any, wanted: list[float | None]) -> None:
    assert there.tolist() == [each is not None for each in wanted]
    assert found == pytest.approx([each or 0.0 for each in wanted], abs=1e-12)


def test_the_half_life_counts_from_the_final_halving() -> None:
    target = np.array([0.2, 0.6, 0.6, 0.6, 0.6, 0.6])
    actual = np.array([0.2, 0.3, 0.5, 0.35, 0.45, 0.55])
    found = convergence.half_times(actual, target, np.full(6, 0.01))
    assert found == [HalfTime(1, 0.6 - 0.2, Outcome.REACHED, 4)]


def test_a_deviation_that_does_not_halve_has_a_reason() -> None:
    target = np.array([0.2, 0.6, 0.6, 0.1, 0.1, 0.1005])
    actual = np.array([0.2, 0.25, 0.3, 0.3, 0.3, 0.3])
    found = convergence.half_times(actual, target, np.array([0.01, 0.01, 0.01, 0.01, 0.01, 0.5]))
    assert [each.outcome for each in found] == [Outcome.OVERTAKEN, Outcome.OVERTAKEN, Outcome.NO_GAP]
    assert convergence.half_times(actual[:3], target[:3], np.zeros(3))[0].outcome is Outcome.NOT_YET


def test_idle_entries_miss_nothing_and_excess_harms_only_starved_entries() -> None:
    states = np.array([[DayState.STARVED, DayState.NO_DEMAND], [DayState.OVER, DayState.OVER]], np.int8)
    actual, target = np.array([[0.2, 0.0], [0.8, 1.0]]), np.array([[0.5, 0.5], [0.5, 0.5]])
    assert convergence.demand_aware_gap(actual, target, states).tolist() == [[0.3, 0.0], pytest.approx([0.3, 0.0])]
    error, there = convergence.demand_aware_error(actual, target, states, np.ones((2, 2), bool))
    assert error == pytest.approx([0.3, 0.0])
    assert there.all()


def test_an_entry_that_waits_itself_harms_nobody_by_what_it_has_above_its_target() -> None:
    states = np.array([[DayState.STARVED], [DayState.NO_DEMAND]], np.int8)
    actual, target = np.array([[0.8], [0.2]]), np.array([[0.5], [0.5]])
    assert convergence.demand_aware_gap(actual, target, states).tolist() == [[0.0], [0.0]]
    both = np.full((2, 1), DayState.STARVED, np.int8)
    assert convergence.demand_aware_gap(actual, target, both) == pytest.approx(np.array([[0.3], [0.3]]))


def test_days_without_comparable_entries_have_no_mean() -> None:
    mean, there = convergence.mean_deviation(np.zeros((1, 2)), np.ones((1, 2)), np.array([[False, True]]))
    assert (mean.tolist(), there.tolist()) == ([0.0, 1.0], [False, True])
    assert convergence.mean_of_days(mean, there) == 1.0
    assert convergence.mean_of_days(mean, np.zeros(2, bool)) is None


def test_no_days_have_no_sums() -> None:
    assert convergence.trailing_sum(np.zeros((3, 0)), 7).shape == (3, 0)


@examples(100)
@given(tables(), st.data())
def test_redistributed_shares_are_what_entries_without_demand_leave(case: dict[str, Any], data: st.DataObject) -> None:
    actual, target = np.array(case["actual"], float), np.array(case["target"], float)
    rows = st.lists(st.sampled_from(DayState), min_size=actual.shape[1], max_size=actual.shape[1])
    states = [data.draw(rows) for _ in actual]
    left = [
        sum(
            max(case["target"][i][day] - case["actual"][i][day], 0.0)
            for i in range(len(actual))
            if states[i][day].name in ("NO_DEMAND", "MET")
        )
        for day in range(actual.shape[1])
    ]
    shares = convergence.redistributed_share(actual, target, np.array(states, dtype=np.int8))
    assert shares == pytest.approx(left, abs=1e-15)


def test_entitled_usage_is_the_target_of_what_all_used() -> None:
    """30 % of 200 and of 50; what is used above is borrowed, what is left below is unused."""
    of_each = entitlement(np.array([0.3, 0.3, 0.0]), np.array([80.0, 5.0, 0.0]), np.array([200.0, 50.0, 10.0]))
    assert of_each.entitled.tolist() == [60.0, 15.0, 0.0]
    assert of_each.borrowed.tolist() == [20.0, 0.0, 0.0]
    assert of_each.unused.tolist() == [0.0, 10.0, 0.0]
