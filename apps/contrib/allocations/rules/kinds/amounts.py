"""What the rules that change amounts share: when something is due for which allocation, and the effect of an amount."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date

from apps.contrib.allocations.rules.state import DueQueue, RuledAllocation, RuledState
from apps.contrib.allocations.rules.step import AmountEffect, Effect
from apps.policies.allocation_rules import AllocationRule

_SAME = 1e-12  # of the amount: rounding of sums

DaysOf = Callable[[RuledAllocation], Sequence[date]]


def due_rows(
    rule: AllocationRule, state: RuledState, day: date, days_of: DaysOf, *, is_current: bool = True
) -> Iterator[tuple[RuledAllocation, int, str]]:
    """Allocations of the rule for which the n-th of `days_of` came and wasn't done: each with n, from 1, and the key.

    Of several days that came the last counts: what was missed isn't made up for. What was carried over stays as it is.
    is_current: only allocations that are current on the day.
    """
    queue = state.queues.get(rule.name)
    if queue is None:
        rows = [row for row in state.allocations.values() if row.unit == rule.unit and row.carried_from is None]
        days = [
            (each.toordinal(), row.uid, n)
            for row in rows
            if rule.concerns(row.path)
            for n, each in enumerate(days_of(row), 1)
        ]
        queue = state.queues[rule.name] = DueQueue(sorted(days, key=lambda due: (due[0], due[2])))
    for uid, n in list(queue.until(day).items()):
        row, key = state.allocations[uid], f"{uid}:{n}"
        if state.is_done(rule.name, key) or (is_current and not row.is_current(day)):
            del queue.waiting[uid]
        else:
            yield row, n, key


def amount_effects(row: RuledAllocation, amount: float) -> tuple[Effect, ...]:
    """The effect of a new amount, at least 0; none where it is the same."""
    after = max(amount, 0.0)
    if abs(after - row.amount) <= _SAME * max(after, row.amount):
        return ()
    return (AmountEffect(row.uid, row.amount, after),)
