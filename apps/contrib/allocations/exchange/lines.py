"""One allocation as a file or a portal shows it, with where it comes from, and what can't be read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any
from uuid import UUID

from apps.contrib.allocations.periods import FIRST_DAY, LAST_DAY
from apps.contrib.allocations.terms import LONGEST_ALLOCATION_REASON
from apps.core.errors import FieldProblem
from apps.policies.models import Allocation
from apps.policies.operations.allocation_edits import MOST_ALLOCATED_AMOUNT
from apps.policies.tree.names import clean_text
from apps.policies.units import CORE_HOUR, LONGEST_SYMBOL

# Columns of a table and fields of a document, in the order of an export. `uid` recognises a changed allocation.
FIELDS = ("entry", "unit", "amount", "starts_on", "ends_on", "reason", "uid")
MOST_ALLOCATION_LINES = 20_000
_LONGEST_ENTRY = 9_000


@dataclass(frozen=True, slots=True)
class AllocationLine:
    """An allocation to be imported. place: where it is, such as "line 3". entry: its path or uid.

    amount: in hours of the unit, ≥ 0. reason: "" for that of the import. uid: of the allocation, None if not written.
    """

    place: str
    entry: str
    amount: float
    starts_on: date
    ends_on: date
    unit: str = CORE_HOUR.symbol
    reason: str = ""
    uid: UUID | None = None


@dataclass(frozen=True, slots=True)
class AllocationFile:
    """What a file holds: its allocations, and the problems of those that can't be read."""

    lines: tuple[AllocationLine, ...]
    problems: tuple[FieldProblem, ...] = ()


@dataclass
class LineReader:
    """Reads allocations from texts by field, and collects the problems of all of them.

    read_amount: returns the number of a text or raises ValueError with what to write instead.
    """

    read_amount: Callable[[Any], float]
    lines: list[AllocationLine] = field(default_factory=list)
    problems: list[FieldProblem] = field(default_factory=list)

    def add(self, place: str, values: Mapping[str, Any]) -> None:
        """Read one allocation; values by field, "" or None for those without."""
        n_problems = len(self.problems)
        entry = self._text(place, values, "entry", _LONGEST_ENTRY)
        if not entry and len(self.problems) == n_problems:
            self.problem(place, "entry", "is empty: write the path of an entry, such as /physics/atlas")
        amount = self._amount(place, values.get("amount"))
        starts_on, ends_on = (self._day(place, values.get(name), name) for name in ("starts_on", "ends_on"))
        if starts_on and ends_on and ends_on < starts_on:
            self.problem(place, "ends_on", f"{ends_on} is before starts_on {starts_on}: exchange them")
        unit = self._text(place, values, "unit", LONGEST_SYMBOL) or CORE_HOUR.symbol
        reason = self._text(place, values, "reason", LONGEST_ALLOCATION_REASON)
        uid = self._uid(place, values.get("uid"))
        if len(self.problems) == n_problems and starts_on and ends_on:
            self.lines.append(AllocationLine(place, entry, amount, starts_on, ends_on, unit, reason, uid))

    def finish(self) -> AllocationFile:
        return AllocationFile(tuple(self.lines), tuple(self.problems))

    def problem(self, place: str, name: str, message: str) -> None:
        self.problems.append(FieldProblem(f"{place}, {name}", message))

    def _text(self, place: str, values: Mapping[str, Any], name: str, longest: int) -> str:
        value = values.get(name)
        try:
            return clean_text("" if value is None else value, longest).strip()
        except ValueError as error:
            self.problem(place, name, str(error))
            return ""

    def _amount(self, place: str, value: object) -> float:
        try:
            amount = self.read_amount(value)
        except ValueError as error:
            self.problem(place, "amount", str(error))
            return 0.0
        if not math.isfinite(amount) or not 0 <= amount <= MOST_ALLOCATED_AMOUNT:
            self.problem(place, "amount", f"must be above 0 and at most {MOST_ALLOCATED_AMOUNT:g}")
            return 0.0
        return amount + 0.0

    def _day(self, place: str, value: object, name: str) -> date | None:
        text = value.isoformat() if isinstance(value, date) else str(value or "").strip()
        try:
            day = date.fromisoformat(text) if len(text) == len("2026-04-01") else None
        except ValueError:
            day = None
        if day is None:
            what = f"{text[:40]!r} is no day" if text else "is empty"
            self.problem(place, name, f"{what}: write it as 2026-04-01")
        elif not FIRST_DAY <= day <= LAST_DAY:
            self.problem(place, name, f"must be a day from {FIRST_DAY} to {LAST_DAY}")
            return None
        return day

    def _uid(self, place: str, value: object) -> UUID | None:
        text = str(value or "").strip()
        try:
            return UUID(text) if text else None
        except ValueError:
            self.problem(place, "uid", f"{text[:40]!r} is no uid: leave it empty for a new allocation")
            return None


def number_of(value: object) -> float:
    """The number of a value in JSON or YAML; raises ValueError for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{str(value)[:40]!r} is no number" if value is not None else "is missing")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def stated_amount(row: Allocation) -> float:
    """The amount that people allocated, without what rules added to it or took: what files hold."""
    return row.amount - row.by_rules
