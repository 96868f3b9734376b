"""Portions: an amount becomes available in equal monthly or quarterly portions, unused ones for a while or for ever.

    A(k) = k · A / n − L(k),  L(k) = max over j ≤ k of ((j − 1 − m) · A / n − U(j)), at least 0

A: the amount that people allocated, n: periods of the allocation from its first day, k: the present one, from 1, U(j):
hours charged to it before the j-th period, m: how many periods longer an unused portion is there. Use takes the oldest
portion first. Without m nothing is lost. A(k), the amount, is what may have been used by the end of the period.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from apps.contrib.allocations.rules.calendar import period_starts
from apps.contrib.allocations.rules.kinds.amounts import amount_effects, due_rows
from apps.contrib.allocations.rules.state import RuledAllocation, RuledState
from apps.contrib.allocations.rules.step import Step
from apps.policies.allocation_rules import AllocationRule, Portions

FORMULA = "A(k) = k · A / n − L(k)"


def portion_steps(rule: AllocationRule, state: RuledState, day: date) -> Iterator[Step]:
    """Steps of allocations in a period whose portion wasn't given yet."""
    terms = rule.terms
    assert isinstance(terms, Portions), "steps are made by the rule's kind"  # noqa: S101 - an invariant, not input

    def days_of(row: RuledAllocation) -> tuple[date, ...]:
        return period_starts(row.starts_on, row.ends_on, terms.every)

    for row, k, key in due_rows(rule, state, day, days_of):
        starts = days_of(row)
        portion = row.initial / len(starts)
        lost = 0.0
        if terms.keeps is not None:
            for j in range(2 + terms.keeps, k + 1):
                lost = max(lost, (j - 1 - terms.keeps) * portion - state.used_before(row, starts[j - 1]))
        lost = min(lost, row.initial * rule.most_percent / 100)
        amount = k * portion - lost
        numbers = (("A", row.initial), ("n", float(len(starts))), ("k", float(k)), ("L(k)", lost), ("A(k)", amount))
        effects = amount_effects(row, amount)
        yield Step(rule.name, day, key, row.entry_uid, row.path, FORMULA, numbers, effects, row.uid)
