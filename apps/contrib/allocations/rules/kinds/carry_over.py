"""Carry-over: of what is unused when an allocation ends, a part is added to the one that follows, for some days.

    C = min(p · (A − U) / 100, cap · B / 100)

A: the amount at the end, U: hours charged to it, see `balance`, B: the amount that people allocated next, p and cap:
percentages. C is an allocation of its own, from the following one's first day. It is used first, and never carried over
again: neither as an allocation nor as a part of A − U.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from itertools import groupby
from operator import attrgetter
from uuid import UUID, uuid5

from apps.contrib.allocations.rules.kinds.amounts import due_rows
from apps.contrib.allocations.rules.state import DAY, RuledAllocation, RuledState
from apps.contrib.allocations.rules.step import CarryEffect, Effect, Step
from apps.policies.allocation_rules import AllocationRule, CarryOver

FORMULA = "C = min(p · (A − U) / 100, cap · B / 100)"


def carry_over_steps(rule: AllocationRule, state: RuledState, day: date) -> Iterator[Step]:
    """Steps of allocations that ended and have a successor, while what is carried over would still be valid."""
    terms = rule.terms
    assert isinstance(terms, CarryOver), "steps are made by the rule's kind"  # noqa: S101 - an invariant, not input
    if state.followers is None:
        state.followers = {
            unit: following_rows(state, unit) for unit in {row.unit for row in state.allocations.values()}
        }
    following = state.followers.get(rule.unit, {})

    def days_of(row: RuledAllocation) -> list[date]:
        after = following.get(row.uid)
        return [] if after is None else [max(row.ends_on + DAY, after.starts_on)]

    for row, _n, key in due_rows(rule, state, day, days_of, is_current=False):
        after = following[row.uid]
        last = min(after.starts_on + timedelta(days=terms.days - 1), after.ends_on)
        if day <= last:
            yield _step(rule, terms, state, day, key, row, after, last)


def _step(
    rule: AllocationRule,
    terms: CarryOver,
    state: RuledState,
    day: date,
    key: str,
    row: RuledAllocation,
    following: RuledAllocation,
    last: date,
) -> Step:
    used = state.used_before(row, row.ends_on + DAY)
    carried = max(row.amount - used, 0.0) * min(terms.percent, rule.most_percent) / 100
    cap = None if terms.most_percent is None else following.initial * terms.most_percent / 100
    amount = carried if cap is None else min(carried, cap)
    numbers = [("A", row.amount), ("U", used), ("p", terms.percent), ("B", following.initial)]
    numbers += [] if terms.most_percent is None else [("cap", terms.most_percent)]
    effects: tuple[Effect, ...] = ()
    if amount > 0:
        uid = uuid5(row.uid, rule.name)  # the same whenever it is made
        effects = (CarryEffect(uid, row.uid, following.starts_on, last, amount, row.unit),)
    return Step(rule.name, day, key, row.entry_uid, row.path, FORMULA, (*numbers, ("C", amount)), effects, row.uid)


def following_rows(state: RuledState, unit: str) -> dict[UUID, RuledAllocation]:
    """By allocation the one that continues where it ends: begins at the latest on the day after, and ends later."""
    by_entry: dict[UUID, list[RuledAllocation]] = {}
    for row in state.allocations.values():
        if row.unit == unit and row.carried_from is None:
            by_entry.setdefault(row.entry_uid, []).append(row)
    following = {}
    for rows in by_entry.values():
        earliest: RuledAllocation | None = None  # to begin, of those that end later
        for _ends_on, group in groupby(sorted(rows, key=lambda row: row.ends_on, reverse=True), attrgetter("ends_on")):
            same_end = list(group)
            for row in same_end:
                if earliest is not None and earliest.starts_on <= row.ends_on + DAY:
                    following[row.uid] = earliest
            some = [*same_end, *([] if earliest is None else [earliest])]
            earliest = min(some, key=lambda row: (row.starts_on, row.uid))
    return following
