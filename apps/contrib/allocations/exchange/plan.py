"""Compare allocations of a file with those of a policy: which are new, changed, equal or missing, and what is wrong.

A line with the uid of an allocation is that allocation. Without uid it is the one with the same entry, unit, days and
amount, else the only one with the same entry, unit and days, whose amount changes. All others are new, so that a file
that is imported twice adds nothing.

Amounts are those that people state: what rules added to them, took or carried over stays.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cached_property
from typing import Annotated, Any, Literal
from unicodedata import normalize
from uuid import UUID

from apps.accounts.actor import Actor
from apps.contrib.allocations.exchange.lines import AllocationFile, AllocationLine, stated_amount
from apps.contrib.allocations.services import allocations_of
from apps.contrib.allocations.terms import VisibilityOf, deciding, tag_of_state
from apps.contrib.allocations.units import policy_units
from apps.core.errors import FieldProblem, Invalid
from apps.policies.access.scope import WRITE, visible_entries
from apps.policies.models import Allocation, Policy
from apps.policies.selectors import get_policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree

Action = Literal["add", "change", "withdraw", "same"]
_Key = tuple[UUID, str, date, date]  # entry, unit, first and last day
_Twin = tuple[_Key, float]
_DIGITS = re.compile(r"\d{1,9}")


@dataclass(frozen=True, slots=True)
class PlannedAllocation:
    """What importing would do with one allocation."""

    action: Action
    place: Annotated[str, 'Where the file has it; "": the file lacks it']
    path: str
    entry_uid: UUID
    unit: str
    amount: Annotated[float, "In hours of the unit"]
    starts_on: date
    ends_on: date
    reason: str
    uid: Annotated[UUID | None, "null: a new one"]
    amount_before: float | None = None
    starts_on_before: date | None = None
    ends_on_before: date | None = None


@dataclass(frozen=True)
class AllocationPlan:
    """All allocations of a file compared with those of a policy. Nothing is imported while there are problems."""

    policy: Policy
    rows: tuple[PlannedAllocation, ...]
    problems: tuple[FieldProblem, ...]

    @cached_property
    def changes(self) -> tuple[PlannedAllocation, ...]:
        """Rows other than `same`."""
        return tuple(row for row in self.rows if row.action != "same")

    @property
    def is_empty(self) -> bool:
        return not self.changes and not self.problems

    @property
    def counts(self) -> dict[Action, int]:
        """Numbers of rows by action."""
        numbers: dict[Action, int] = dict.fromkeys(("add", "change", "withdraw", "same"), 0)
        for row in self.rows:
            numbers[row.action] += 1
        return numbers

    @cached_property
    def tag(self) -> str:
        """Identifies the plan: another one has another tag, such as after another user changed an allocation."""
        return tag_of_state(self.policy.slug, *self.changes, *self.problems)


def plan_allocations(
    *,
    policy_slug: str,
    file: AllocationFile,
    withdraw_missing: bool = False,
    at: datetime,
    actor: Actor,
    visibility: VisibilityOf = visible_entries,
) -> AllocationPlan:
    """Compare a file with the policy. withdraw_missing: allocations that the file lacks are withdrawn, of entries to
    which the actor may allocate.
    """
    policy = get_policy(slug=policy_slug, actor=actor, scope=WRITE)
    tree = load_tree(policy)
    visible = visibility(policy=policy, tree=tree, actor=actor, at=at)
    may = deciding(policy=policy, tree=tree, at=at, actor=actor)
    units = [unit.symbol for unit in policy_units(policy)]
    whole: dict[str, Any] = {"policy": policy, "tree": tree, "units": units, "file": file}
    return plan_on_tree(**whole, may_see=visible.may_see, may_decide=may, withdraw_missing=withdraw_missing)


def plan_on_tree(
    *,
    policy: Policy,
    tree: TreeColumns,
    units: Sequence[str],
    file: AllocationFile,
    may_see: Callable[[int], bool],
    may_decide: Callable[[int], bool],
    withdraw_missing: bool = False,
) -> AllocationPlan:
    """Compare a file with the policy's allocations to entries of a tree. units: symbols that allocations can have.

    may_see, may_decide: of the entry with an index.
    """
    planner = _Planner(policy, tree, units, may_see, may_decide)
    planner.plan(file.lines)
    if withdraw_missing:
        planner.withdraw_missing()
    problems = sorted((*file.problems, *planner.problems), key=lambda problem: _number_in(problem.where))
    return AllocationPlan(policy, tuple(planner.rows), tuple(problems))


def refuse_problems(problems: Sequence[FieldProblem]) -> None:
    """Raise Invalid with all problems, if there are any."""
    if problems:
        message = f"{problems[0].where} {problems[0].message}."
        raise Invalid(message, code="bad_allocations", fields=problems)


def _number_in(place: str) -> int:
    """The number in a place such as "line 12, entry", to list problems in the order of the file; 0 without one."""
    digits = _DIGITS.search(place)
    return int(digits[0]) if digits else 0


class _Planner:
    def __init__(
        self,
        policy: Policy,
        tree: TreeColumns,
        units: Sequence[str],
        may_see: Callable[[int], bool],
        may_decide: Callable[[int], bool],
    ) -> None:
        self.rows: list[PlannedAllocation] = []
        self.problems: list[FieldProblem] = []
        self._policy, self._tree, self._units = policy, tree, units
        self._may_see, self._may_decide = may_see, may_decide
        self._index: dict[str, int | None] = {}
        self._decided: dict[int, bool] = {}
        self._current: dict[UUID, tuple[Allocation, int]] = {}
        for row in allocations_of(policy):
            if row.carried_from is not None:
                continue  # the rest of another one, made by a rule
            i = tree.index_of_uid(row.entry_uid)
            if i is not None and may_see(i):
                self._current[row.uid] = row, i
        self._unmatched: dict[_Key, list[Allocation]] = defaultdict(list)
        self._place_of: dict[UUID, str] = {}

    def plan(self, lines: Sequence[AllocationLine]) -> None:
        placed = [(line, i) for line in lines if (i := self._entry(line)) is not None and self._has_unit(line)]
        placed = self._without_repeated(placed)
        taken = self._taken_uids(line.uid for line, _ in placed if line.uid is not None)
        by_uid = {line.place: self._current[line.uid] for line, _ in placed if line.uid in self._current}
        matched = {row.uid for row, _ in by_uid.values()}
        for row, _ in self._current.values():
            if row.uid not in matched:
                self._unmatched[_key_of(row)].append(row)
        exact = {line.place: equal for line, i in placed if not line.uid and (equal := self._equal(line, i))}
        waiting: dict[_Key, int] = defaultdict(int)
        for line, i in placed:
            waiting[self._key(line, i)] += line.uid is None and line.place not in exact
        for line, i in placed:
            key = self._key(line, i)
            if line.place in by_uid:
                self._match(line, i, by_uid[line.place][0])
            elif line.place in exact:
                self._match(line, i, exact[line.place])
            elif line.uid is not None and line.uid in taken:
                message = "belongs to an allocation that is withdrawn, or that you may not change: leave it empty"
                self._refuse(line, "uid", message)
            elif line.uid is None and waiting[key] == 1 and len(self._unmatched[key]) == 1:
                self._match(line, i, self._unmatched[key].pop())
            else:
                self._add(line, i)
        self._refuse_twins()

    def withdraw_missing(self) -> None:
        for row, i in self._current.values():
            if row.uid not in self._place_of and self._may(i):
                self.rows.append(
                    PlannedAllocation(
                        action="withdraw",
                        place="",
                        path=self._tree.path(i),
                        entry_uid=row.entry_uid,
                        unit=row.unit,
                        amount=stated_amount(row),
                        starts_on=row.starts_on,
                        ends_on=row.ends_on,
                        reason="",
                        uid=row.uid,
                    )
                )

    def _refuse(self, line: AllocationLine, name: str, message: str) -> None:
        self.problems.append(FieldProblem(f"{line.place}, {name}", message))

    def _entry(self, line: AllocationLine) -> int | None:
        """Index of the entry of a line; None, with a problem, if no allocation can be made for it."""
        if line.entry not in self._index:
            i = _find(self._tree, line.entry)
            self._index[line.entry] = i if i is not None and self._may_see(i) else None
        i = self._index[line.entry]
        if i is None:
            message = f"there is no entry {line.entry[:200]!r}: add it to the tree first, or correct the path"
            self._refuse(line, "entry", message)
        elif i == 0:
            self._refuse(line, "entry", "is the root, which has the capacity: name an entry below it")
            return None
        elif self._tree.is_reserve[i]:
            self._refuse(line, "entry", "is a reserve, which has no allocation: name another entry")
            return None
        return i

    def _has_unit(self, line: AllocationLine) -> bool:
        if line.unit in self._units:
            return True
        known = ", ".join(self._units)
        self._refuse(line, "unit", f"{line.unit!r} is no unit of the policy: write one of {known}, or declare it first")
        return False

    def _without_repeated(self, placed: list[tuple[AllocationLine, int]]) -> list[tuple[AllocationLine, int]]:
        """The lines without those that repeat another one's allocation, or its uid, which are problems."""
        first: dict[object, str] = {}
        once = []
        for line, i in placed:
            twin: _Twin = (self._key(line, i), line.amount)
            repeated = first.setdefault(twin, line.place)
            of_uid = line.place if line.uid is None else first.setdefault(line.uid, line.place)
            if repeated != line.place:
                self._refuse(line, "entry", f"repeats {repeated}: remove one of them, or add the amounts in one")
            elif of_uid != line.place:
                self._refuse(line, "uid", f"is that of {of_uid}, too: leave it empty for a new allocation")
            else:
                once.append((line, i))
        return once

    def _taken_uids(self, uids: Iterable[UUID]) -> set[UUID]:
        """Those of allocations that the file can't change: withdrawn ones, of other policies, and hidden ones."""
        others = [uid for uid in uids if uid not in self._current]
        return set(Allocation.objects.filter(uid__in=others).values_list("uid", flat=True)) if others else set()

    def _key(self, line: AllocationLine, i: int) -> _Key:
        return self._tree.uuid(i), line.unit, line.starts_on, line.ends_on

    def _equal(self, line: AllocationLine, i: int) -> Allocation | None:
        """The allocation with all values of a line, which is then matched."""
        same_days = self._unmatched.get(self._key(line, i), [])
        equal = next((row for row in same_days if stated_amount(row) == line.amount), None)
        if equal is not None:
            same_days.remove(equal)
        return equal

    def _may(self, i: int) -> bool:
        if i not in self._decided:
            self._decided[i] = self._may_decide(i)
        return self._decided[i]

    def _is_allowed(self, line: AllocationLine, i: int) -> bool:
        if not self._may(i):
            parent = self._tree.path(int(self._tree.parent[i]))
            message = f"only managers of {parent} or of an entry above it can allocate to {line.entry[:200]}: ask one"
            self._refuse(line, "entry", message)
            return False
        if not line.amount:
            self._refuse(line, "amount", "is 0: write an amount above 0, or withdraw the allocation on its page")
            return False
        return True

    def _match(self, line: AllocationLine, i: int, row: Allocation) -> None:
        self._place_of[row.uid] = line.place
        if (row.entry_uid, row.unit) != (self._tree.uuid(i), line.unit):
            path = self._tree.path(self._current[row.uid][1])
            self._refuse(line, "uid", f"is of an allocation in {row.unit} to {path}: leave it empty for a new one")
            return
        if (stated_amount(row), row.starts_on, row.ends_on) == (line.amount, line.starts_on, line.ends_on):
            self.rows.append(self._planned("same", line, i, row.uid))
        elif self._is_allowed(line, i):
            planned = self._planned("change", line, i, row.uid)
            before = replace(
                planned, amount_before=stated_amount(row), starts_on_before=row.starts_on, ends_on_before=row.ends_on
            )
            self.rows.append(before)

    def _add(self, line: AllocationLine, i: int) -> None:
        if self._is_allowed(line, i):
            self.rows.append(self._planned("add", line, i, line.uid))

    def _planned(self, action: Action, line: AllocationLine, i: int, uid: UUID | None) -> PlannedAllocation:
        return PlannedAllocation(
            action=action,
            place=line.place,
            path=self._tree.path(i),
            entry_uid=self._tree.uuid(i),
            unit=line.unit,
            amount=line.amount,
            starts_on=line.starts_on,
            ends_on=line.ends_on,
            reason=line.reason,
            uid=uid,
        )

    def _refuse_twins(self) -> None:
        """Refuse changes by which an allocation would equal one that the file doesn't name."""
        others = {
            (_key_of(row), stated_amount(row)) for row, _ in self._current.values() if row.uid not in self._place_of
        }
        for row in self.rows:
            if row.action != "same" and ((row.entry_uid, row.unit, row.starts_on, row.ends_on), row.amount) in others:
                message = "there is an equal allocation already: write its uid, or remove the line"
                self.problems.append(FieldProblem(f"{row.place}, entry", message))


def _key_of(row: Allocation) -> _Key:
    return row.entry_uid, row.unit, row.starts_on, row.ends_on


def _find(tree: TreeColumns, entry: str) -> int | None:
    """Index of an entry by path or uid; a path may lack its first slash."""
    i = tree.index_of_path(normalize("NFC", entry))
    if i is not None or entry.startswith("/"):
        return i
    try:
        return tree.index_of_uid(UUID(entry))
    except ValueError:
        return None
