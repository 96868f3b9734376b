"""How much of their current allocations entries have used, together by entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.contrib.allocations.rules.state import RuledState
from apps.policies.allocation_rules import AllocationRule

F8 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CurrentUses:
    """Of entries: U and A of their current allocations, as `balance` defines them; arrays parallel to `entries`."""

    entries: Sequence[UUID]
    used: F8
    amount: F8

    @property
    def percent(self) -> F8:
        """Of the amount; without one 100 as soon as anything was used."""
        without = np.where(self.used > 0, 100.0, 0.0)
        return np.divide(self.used * 100, self.amount, out=without, where=self.amount > 0)

    @property
    def remaining(self) -> F8:
        return np.maximum(self.amount - self.used, 0.0)


def current_uses(rule: AllocationRule, state: RuledState, day: date, *, until: date) -> CurrentUses:
    """Of each entry that a rule concerns and that has an allocation on a day: usage up to the start of `until`."""
    used, rows = state.used.get(rule.unit), state.rows.get(rule.unit)
    if used is None or rows is None:
        return CurrentUses([], np.zeros(0), np.zeros(0))
    concerned = state.concerned.get(rule.name)
    if concerned is None or len(concerned) != len(rows.entries):
        concerned = np.array([rule.concerns(state.paths[uid]) for uid in rows.entries])
        state.concerned[rule.name] = concerned
    amounts, first = rows.current(day)
    hours = used.each_before(rows.entries, first, until)
    for at in rows.beside_ended(first, day):  # of all others U is what was used since their first day
        uid = rows.entries[at]
        hours[at] = rows.holding(uid, day).used(partial(used.before, uid), until)
    shown = np.flatnonzero(concerned & (first > 0))
    return CurrentUses([rows.entries[at] for at in shown.tolist()], hours[shown], amounts[shown])
