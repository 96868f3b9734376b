"""Aging, use it or lose it: after each interval an allocation loses what should have been used by then and wasn't.

    A(t) = A(t0) − max(U(t), floor((t − t0) / Δn) · A(t0) · Δn / ΔT)

t0: first day, ΔT: days of the allocation, Δn: days of an interval, U: hours charged to it since t0, A(t0): the amount
that people allocated, A(t): what is left to use, which the amount is set to with U added. So it grows again where
use catches up. Each interval is one step, on its first day; between two steps what is left falls with use.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from apps.contrib.allocations.rules.kinds.amounts import amount_effects, due_rows
from apps.contrib.allocations.rules.state import RuledAllocation, RuledState
from apps.contrib.allocations.rules.step import Step
from apps.policies.allocation_rules import Aging, AllocationRule

FORMULA = "A(t) = A(t0) − max(U(t), floor((t − t0) / Δn) · A(t0) · Δn / ΔT)"


def aging_steps(rule: AllocationRule, state: RuledState, day: date) -> Iterator[Step]:
    """Steps of allocations that an interval ended for; those that lose nothing are steps without an effect."""
    terms = rule.terms
    assert isinstance(terms, Aging), "steps are made by the rule's kind"  # noqa: S101 - an invariant, not input
    interval = timedelta(days=terms.interval_days)

    def days_of(row: RuledAllocation) -> list[date]:
        return [row.starts_on + n * interval for n in range(1, (row.n_days - 1) // terms.interval_days + 1)]

    for row, n, key in due_rows(rule, state, day, days_of):
        used, initial = state.used_before(row, day), row.initial
        aged = n * initial * terms.interval_days / row.n_days
        lost = min(max(aged - used, 0.0), initial * rule.most_percent / 100)
        left = initial - used - lost
        numbers = (
            ("A(t0)", initial),
            ("U(t)", used),
            ("n", float(n)),
            ("Δn", float(terms.interval_days)),
            ("ΔT", float(row.n_days)),
            ("aged", aged),
            ("A(t)", left),
        )
        effects = amount_effects(row, initial - lost)
        yield Step(rule.name, day, key, row.entry_uid, row.path, FORMULA, numbers, effects, row.uid)
