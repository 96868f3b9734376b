"""Each kind of rule against numbers worked out by hand, on one project with a few days of usage."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from apps.contrib.allocations.rules.engine import simulate, steps_on
from apps.contrib.allocations.rules.state import RuledAllocation, RuledState, UsedByDay
from apps.contrib.allocations.rules.step import CarryEffect, Step
from apps.policies.allocation_rules import AllocationRule, rules_of
from apps.policies.settings import PolicySettings
from tests.contrib.allocations.ruled_site import rule

FIRST, DAY = date(2026, 1, 1), timedelta(days=1)
PROJECT, OTHER, ROOT = UUID(int=1), UUID(int=2), UUID(int=3)
CORE_H = "core-h"


def rules(*declared: dict[str, Any]) -> tuple[AllocationRule, ...]:
    return rules_of(PolicySettings.from_json({"rules": list(declared)}).rules)


def allocation(amount: float, starts_on: date = FIRST, ends_on: date = date(2026, 12, 31), n: int = 11) -> Any:
    return RuledAllocation(UUID(int=n), PROJECT, "/p", starts_on, ends_on, amount, CORE_H)


def state_of(
    *rows: RuledAllocation, used: dict[date, float], other: float | None = None, n_days: int = 900
) -> RuledState:
    """used: hours of a project on some days. other: an allocation of a sibling that uses nothing."""
    hours = np.zeros((n_days + 1, 2))
    for day, amount in used.items():
        hours[(day - FIRST).days + 1, 0] += amount
    beside = (
        [] if other is None else [RuledAllocation(UUID(int=12), OTHER, "/o", FIRST, date(2028, 1, 1), other, CORE_H)]
    )
    return RuledState(
        allocations={row.uid: row for row in (*rows, *beside)},
        used={CORE_H: UsedByDay(FIRST, hours.cumsum(axis=0), {PROJECT: 0, OTHER: 1})},
        shares={PROJECT: 30.0, OTHER: 10.0},
        parents={PROJECT: ROOT, OTHER: ROOT},
        paths={PROJECT: "/p", OTHER: "/o", ROOT: "/"},
    )


def run(state: RuledState, *declared: dict[str, Any], until: date = date(2026, 12, 31)) -> list[Step]:
    return list(simulate(rules(*declared), state, FIRST, until))


def amounts(steps: list[Step], name: str) -> list[float]:
    return [step.number(name) for step in steps]


def test_aging_takes_what_was_not_used_and_gives_it_back_when_use_catches_up() -> None:
    """Of 365 hours in 365 days 90 age each 90 days: with 30 used then, 60 are lost; with 180 used by day 180, none."""
    row = allocation(365)
    steps = run(state_of(row, used={date(2026, 2, 1): 30, date(2026, 5, 1): 150}), rule("aging", {"interval_days": 90}))
    assert [step.on for step in steps] == [date(2026, 4, 1), date(2026, 6, 30), date(2026, 9, 28), date(2026, 12, 27)]
    assert amounts(steps, "aged") == [90, 180, 270, 360]
    assert amounts(steps, "A(t)") == [365 - 90, 365 - 180, 365 - 270, 365 - 360]
    assert [step.effects[0].after for step in steps] == [305, 365, 275, 185]  # type: ignore[union-attr]


def test_an_owner_bounds_what_aging_takes() -> None:
    steps = run(state_of(allocation(365), used={}), rule("aging", {"interval_days": 90}, most={"percent": 40}))
    assert amounts(steps, "A(t)") == [275, 365 * 0.6, 365 * 0.6, 365 * 0.6]


@pytest.mark.parametrize(
    ("keeps", "available"),
    [
        # 1,200 hours, 300 a quarter; 100 used in the first, 500 in the second, none later.
        (None, [300, 600, 900, 1_200]),
        (0, [300, 400, 700, 900]),  # lost: 200 in April; in October 100, since 200 too many were used before July
        (1, [300, 600, 900, 1_200]),  # the first 300 were used up by 1 July, the second by 1 October
    ],
)
def test_portions_become_available_and_are_lost(keeps: int | None, available: list[float]) -> None:
    used = {date(2026, 2, 1): 100.0, date(2026, 5, 1): 500.0}
    steps = run(state_of(allocation(1_200), used=used), rule("portions", {"every": "quarter", "keeps": keeps}))
    assert [step.on for step in steps] == [date(2026, month, 1) for month in (1, 4, 7, 10)]
    assert amounts(steps, "A(k)") == available


def test_an_unused_portion_that_is_kept_for_a_period_is_lost_after_it() -> None:
    steps = run(state_of(allocation(1_200), used={}), rule("portions", {"every": "quarter", "keeps": 1}))
    assert amounts(steps, "L(k)") == [0, 0, 300, 600]
    assert amounts(steps, "A(k)") == [300, 600, 600, 600]


def test_months_of_an_allocation_begin_on_its_day_or_the_last_of_the_month() -> None:
    row = allocation(400, date(2026, 1, 31), date(2026, 4, 30))
    steps = run(state_of(row, used={}), rule("portions", {"every": "month"}))
    assert [step.on for step in steps] == [date(2026, 1, 31), date(2026, 2, 28), date(2026, 3, 31), date(2026, 4, 30)]
    assert amounts(steps, "A(k)") == [100, 200, 300, 400]


def test_hours_that_a_person_adds_come_on_top_of_what_a_rule_did() -> None:
    state = state_of(allocation(365), used={})
    aging = rules(rule("aging", {"interval_days": 90}))
    list(simulate(aging, state, FIRST, date(2026, 4, 1)))
    (row,) = state.allocations.values()
    assert (row.amount, row.by_rules, row.initial) == (275, -90, 365)
    state.allocations[row.uid] = RuledAllocation(
        row.uid, PROJECT, "/p", row.starts_on, row.ends_on, row.amount + 365, CORE_H, by_rules=row.by_rules
    )
    (step,) = simulate(aging, state, date(2026, 4, 2), date(2026, 6, 30))
    assert step.number("A(t0)") == 730
    assert step.number("A(t)") == 730 - 360


def test_pull_back_of_what_is_unused_is_taken_each_time() -> None:
    terms = {"every": "quarter", "of": "unused", "table": [{"below_percent": 100, "removed_percent": 50}]}
    steps = run(state_of(allocation(800), used={}), rule("pull_back", terms))
    assert amounts(steps, "removed") == [400, 200, 100]


def test_use_at_a_bound_is_not_below_it_and_nothing_planned_removes_nothing() -> None:
    terms = {"every": "quarter", "plan": [0, 50, 25, 25], "table": [{"below_percent": 70, "removed_percent": 20}]}
    steps = run(state_of(allocation(1_000), used={date(2026, 5, 1): 350}), rule("pull_back", terms))
    assert amounts(steps, "use") == [100, 70, 350 / 7.5]
    assert amounts(steps, "removed") == [0, 0, 150]


def test_a_pull_back_waits_its_days_and_leaves_what_was_used() -> None:
    terms = {"every": "quarter", "days_after": 9, "table": [{"below_percent": 200, "removed_percent": 100}]}
    state = state_of(allocation(1_000), used={date(2026, 4, 5): 900})
    steps = run(state, rule("pull_back", terms), until=date(2026, 4, 30))
    assert [step.on for step in steps] == [date(2026, 4, 10)]
    assert (steps[0].number("R"), steps[0].number("removed")) == (250, 100)


TWO_YEARS = (allocation(1_000), allocation(500, date(2027, 1, 1), date(2027, 12, 31), n=13))
CARRY = {"percent": 50, "most_percent": 60, "days": 90}


def test_a_part_of_the_rest_is_carried_over_for_some_days() -> None:
    steps = run(state_of(*TWO_YEARS, used={date(2026, 6, 1): 700}), rule("carry_over", CARRY), until=date(2027, 12, 31))
    (step,) = steps
    assert step.on == date(2027, 1, 1)
    (effect,) = step.effects
    assert isinstance(effect, CarryEffect)
    assert (effect.amount, effect.starts_on, effect.ends_on) == (150, date(2027, 1, 1), date(2027, 3, 31))


def test_what_is_carried_over_is_capped_by_the_allocation_that_follows() -> None:
    (step,) = run(state_of(*TWO_YEARS, used={}), rule("carry_over", CARRY), until=date(2027, 12, 31))
    assert step.number("C") == 300


def test_what_was_carried_over_is_used_first_and_never_carried_over_again() -> None:
    """Of 150 carried hours and 500, 100 are used in January 2027: the carried ones pay, and 500 are unused."""
    third = allocation(500, date(2028, 1, 1), date(2028, 12, 31), n=14)
    used = {date(2026, 6, 1): 700.0, date(2027, 1, 10): 100.0}
    state = state_of(*TWO_YEARS, third, used=used)
    steps = run(state, rule("carry_over", CARRY), until=date(2028, 6, 1))
    assert [(step.number("A"), step.number("U"), step.number("C")) for step in steps] == [
        (1_000, 700, 150),
        (500, 0, 250),
    ]
    assert sum(row.carried_from is not None for row in state.allocations.values()) == 2


def test_hours_that_two_carried_amounts_could_pay_for_are_paid_once() -> None:
    """Of 2026, 100 and 60 hours are carried over until March; 90 of the 290 hours used then are theirs to pay for."""
    beside = allocation(120, date(2026, 7, 1), n=15)
    used = {date(2027, 1, 10): 90.0, date(2027, 6, 1): 200.0}
    carry = rule("carry_over", {"percent": 50, "days": 90})
    last = rule("last_when_used_up", {"every": "month", "least_shares": 2})
    state = state_of(allocation(200), beside, TWO_YEARS[1], used=used, other=750)
    steps = run(state, carry, last, until=date(2027, 7, 1))
    carried = [row for row in state.allocations.values() if row.carried_from is not None]
    assert [row.amount for row in carried] == [100, 60]
    named = {step.on: step.number("R /p") for step in steps if step.rule == "last when used up"}
    assert named[date(2027, 2, 1)] == 500 + 160 - 90
    assert named[date(2027, 5, 1)] == 500
    assert named[date(2027, 7, 1)] == 300


def test_hours_of_an_ended_allocation_beside_are_not_use_of_the_one_that_remains() -> None:
    """30 hours beside 100, in March and April, of which 20 are used: then 100 remain, and 60 of them are used."""
    beside = allocation(30, date(2026, 3, 1), date(2026, 4, 30), n=15)
    used = {date(2026, 3, 10): 20.0, date(2026, 6, 10): 60.0}
    last = rule("last_when_used_up", {"every": "month", "least_shares": 2})
    steps = run(state_of(allocation(100), beside, used=used, other=750), last, until=date(2026, 7, 1))
    named = {step.on: step.number("R /p") for step in steps}
    assert [named[date(2026, month, 1)] for month in (3, 4, 5, 7)] == [130, 110, 100, 40]


def test_an_allocation_without_a_successor_carries_nothing_over() -> None:
    assert run(state_of(TWO_YEARS[0], used={}), rule("carry_over", CARRY), until=date(2027, 6, 1)) == []


def test_siblings_divide_their_shares_by_what_remains() -> None:
    """40 shares together, 2 at least each: 36 are divided as 250 to 750; then as 0 to 750."""
    used = {date(2026, 1, 15): 750.0, date(2026, 2, 15): 400.0}
    state = state_of(allocation(1_000), used=used, other=750)
    steps = run(state, rule("last_when_used_up", {"every": "month", "least_shares": 2}), until=date(2026, 3, 31))
    assert [step.on for step in steps] == [date(2026, 1, 1), date(2026, 2, 1), date(2026, 3, 1)]
    assert [step.number("ΣR") for step in steps] == [1_750, 1_000, 750]
    after = [{effect.entry_uid: effect.after for effect in step.effects} for step in steps]  # type: ignore[union-attr]
    assert after[1] == pytest.approx({PROJECT: 2 + 36 * 0.25, OTHER: 2 + 36 * 0.75})
    assert state.shares == {PROJECT: 2, OTHER: 38}


def test_shares_stay_where_all_are_used_up() -> None:
    state = state_of(allocation(0), used={FIRST: 1}, other=0)
    (step,) = run(state, rule("last_when_used_up", {}), until=date(2026, 1, 31))
    assert step.effects == ()
    assert state.shares == {PROJECT: 30, OTHER: 10}


def test_use_below_zero_by_corrections_counts_as_none() -> None:
    state = state_of(allocation(365), used={date(2026, 2, 1): -500})
    levels = {"levels": [{"percent": 0.001, "shares": 1}]}
    steps = run(state, rule("aging", {"interval_days": 90}), rule("thresholds", levels), until=date(2026, 4, 1))
    assert [(step.rule, step.number("U(t)")) for step in steps] == [("aging", 0)]


def test_two_allocations_at_a_time_share_the_usage_by_amount() -> None:
    beside = allocation(100, n=13)
    state = state_of(allocation(300), beside, used={date(2026, 2, 1): 80})
    steps = run(state, rule("aging", {"interval_days": 90}), until=date(2026, 4, 1))
    assert [step.number("U(t)") for step in steps] == [60, 20]


def test_a_threshold_acts_on_the_day_that_reaches_it() -> None:
    used = {FIRST + timedelta(days=at): 10.0 for at in range(30)}
    levels = {"levels": [{"percent": 50}, {"percent": 75, "shares": 5}, {"percent": 100, "shares": 1}]}
    state = state_of(allocation(200), used=used)
    steps = run(state, rule("thresholds", levels), until=date(2026, 2, 28))
    assert [(step.on.day, step.level, step.changes) for step in steps] == [
        (10, 1, False),
        (15, 2, True),
        (20, 3, True),
    ]
    assert state.shares[PROJECT] == 1


def test_a_day_is_evaluated_once() -> None:
    state = state_of(allocation(100), used={FIRST: 200})
    declared = rules(
        rule("thresholds", {"levels": [{"percent": 100, "shares": 1}]}), rule("aging", {"interval_days": 1})
    )
    day = FIRST + timedelta(days=1)
    assert len(list(steps_on(declared, state, day))) == 2
    assert list(steps_on(declared, state, day)) == []


def test_a_year_of_a_thousand_allocations_of_one_entry_reads_each_day_once() -> None:
    rows = [allocation(10, FIRST + timedelta(days=n % 300), date(2026, 12, 31), n=1_000 + n) for n in range(1_000)]
    state = state_of(*rows, used={date(2026, 3, 1): 500})
    calls = 0
    before = UsedByDay.before

    def counted(self: UsedByDay, *args: Any) -> float:
        nonlocal calls
        calls += 1
        return before(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UsedByDay, "before", counted)
        declared = [
            rule("thresholds", {"levels": [{"percent": 90, "shares": 1}]}),
            rule("aging", {"interval_days": 90}),
        ]
        steps = run(state, *declared)
    n_aged = sum(step.rule == "aging" for step in steps)
    assert n_aged > 1_000
    assert calls <= 366 * 301, "once a day for each of the 300 first days, whatever the number of allocations"


@pytest.mark.parametrize("seed", range(5))
def test_usage_that_is_summed_before_a_day_is_that_of_its_days(seed: int) -> None:
    rng = np.random.default_rng(seed)
    hours = rng.integers(0, 9, (80, 1)).astype(float)
    cumulative = np.concatenate([np.zeros((1, 1)), hours.cumsum(axis=0)])
    each_day = UsedByDay(FIRST, cumulative, {PROJECT: 0})
    listed = [0, *sorted(rng.choice(np.arange(1, 40), 5, replace=False).tolist())]
    rows = [*listed, *range(40, 81)]
    earlier = tuple(FIRST.toordinal() + day for day in listed)
    summed = UsedByDay(FIRST + 40 * DAY, cumulative[rows], {PROJECT: 0}, earlier)
    days = [FIRST + row * DAY for row in (*rows, 90)]
    for begin in days:
        since = np.array([begin.toordinal()])
        for end in days:
            assert summed.before(PROJECT, begin, end) == each_day.before(PROJECT, begin, end)
            assert summed.each_before([PROJECT], since, end) == each_day.each_before([PROJECT], since, end)
    last, until = FIRST + 70 * DAY, FIRST + 100 * DAY
    ahead = [used.going_on(last, until, pace_days=28).before(PROJECT, FIRST, until) for used in (summed, each_day)]
    assert ahead[0] == pytest.approx(ahead[1])
