"""Allocations as operations of a change set write them: a new one, another amount, or an end.

So what a rule does to an amount is in the history like its shares: dated, with an author and a reason, and undone by
undoing the revision. `was` is the amount before: publishing refuses the operation if it is another one by then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID, uuid4

from apps.policies.models import Allocation
from apps.policies.tree.names import clean_text
from apps.policies.units import CORE_HOUR, LONGEST_SYMBOL

MOST_ALLOCATED_AMOUNT = 1e15
LONGEST_RULE = 64


@dataclass(frozen=True, slots=True)
class AllocationEdit:
    """One change of an allocation. was: None for a new one. amount: None withdraws it. rule: that makes the change.

    unit, starts_on, ends_on and carried_from (the allocation whose rest it is) are those of a new one.
    """

    uid: UUID
    entry_uid: UUID
    was: float | None
    amount: float | None
    rule: str = ""
    unit: str = CORE_HOUR.symbol
    starts_on: date | None = None
    ends_on: date | None = None
    carried_from: UUID | None = None

    @property
    def is_new(self) -> bool:
        return self.was is None

    def to_json(self) -> dict[str, Any]:
        """The operation; a new one with its unit and days."""
        operation = {
            "entry": str(self.entry_uid),
            "allocation": str(self.uid),
            "was": self.was,
            "amount": self.amount,
            "rule": self.rule,
        }
        if self.starts_on is None or self.ends_on is None:
            return operation
        carried = {} if self.carried_from is None else {"carried_from": str(self.carried_from)}
        days = {"starts_on": self.starts_on.isoformat(), "ends_on": self.ends_on.isoformat()}
        return {**operation, "unit": self.unit, **days, **carried}


def read_allocation(fields: Mapping[str, Any], entry_uid: UUID) -> AllocationEdit:
    """Parse an operation; raise ValueError with the reason if it is invalid."""
    was, amount = _amount(fields.get("was"), "was"), _amount(fields.get("amount"), "amount")
    if was is None and amount is None:
        raise ValueError("needs an amount, or was, the amount before, to withdraw it")
    if was is not None and fields.get("allocation") is None:
        raise ValueError("allocation is needed, the uid of the one that had this amount")
    is_dated = fields.get("starts_on") is not None or fields.get("ends_on") is not None or was is None
    starts_on, ends_on = (_day(fields.get(key), key) if is_dated else None for key in ("starts_on", "ends_on"))
    if starts_on is not None and ends_on is not None and ends_on < starts_on:
        raise ValueError("ends_on must not be before starts_on")
    return AllocationEdit(
        uid=_uid(fields["allocation"], "allocation") if fields.get("allocation") is not None else uuid4(),
        entry_uid=entry_uid,
        was=was,
        amount=amount,
        rule=clean_text(fields.get("rule", ""), LONGEST_RULE),
        unit=clean_text(fields.get("unit", CORE_HOUR.symbol), LONGEST_SYMBOL),
        starts_on=starts_on,
        ends_on=ends_on,
        carried_from=None if fields.get("carried_from") is None else _uid(fields["carried_from"], "carried_from"),
    )


def inverse_of(operation: Mapping[str, Any], withdrawn: Allocation | None) -> dict[str, Any]:
    """The operation that undoes one. withdrawn: the allocation that it withdrew."""
    undone = {**operation, "was": operation["amount"], "amount": operation["was"]}
    if withdrawn is None:
        return undone
    days = {"starts_on": withdrawn.starts_on.isoformat(), "ends_on": withdrawn.ends_on.isoformat()}
    carried = {} if withdrawn.carried_from is None else {"carried_from": str(withdrawn.carried_from)}
    return {**undone, "unit": withdrawn.unit, **days, **carried}


def _amount(value: object, where: str) -> float | None:
    if value is None:
        return None
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not good or not 0 <= value <= MOST_ALLOCATED_AMOUNT:  # type: ignore[operator]
        raise ValueError(f"{where} must be a number from 0 to {MOST_ALLOCATED_AMOUNT:g}")
    return float(value) + 0.0  # type: ignore[arg-type]


def _day(value: object, where: str) -> date:
    try:
        day = date.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise ValueError(f"{where} must be a day, such as 2026-03-12") from None
    if not 1970 <= day.year <= 2999:
        raise ValueError(f"{where} must be a day from 1970 to 2999")
    return day


def _uid(value: object, where: str) -> UUID:
    try:
        return UUID(value if isinstance(value, str) else "")
    except ValueError:
        raise ValueError(f"{where} must be the uid of an allocation") from None
