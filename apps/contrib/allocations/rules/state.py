"""What rules read and change in memory: allocations, shares, limits, steps that were taken, and usage by day. Pure.

Usage of an entry below zero (more was credited than delivered) counts as 0 in every formula.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cached_property
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.contrib.allocations.balance import Grant, Holding, charged, run_on
from apps.contrib.allocations.rules.step import (
    AmountEffect,
    CarryEffect,
    LimitsEffect,
    SharesEffect,
    Step,
)

F8 = npt.NDArray[np.float64]
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class RuledAllocation:
    """An allocation as rules see it. by_rules: what they added to its amount. carried_from: whose rest it is."""

    uid: UUID
    entry_uid: UUID
    path: str
    starts_on: date
    ends_on: date
    amount: float
    unit: str
    by_rules: float = 0.0
    carried_from: UUID | None = None

    @property
    def initial(self) -> float:
        """The amount that people allocated."""
        return self.amount - self.by_rules

    @property
    def n_days(self) -> int:
        return (self.ends_on - self.starts_on).days + 1

    @property
    def is_carried(self) -> bool:
        return self.carried_from is not None

    def is_current(self, day: date) -> bool:
        return self.starts_on <= day <= self.ends_on


@dataclass(frozen=True, eq=False)
class UsedByDay:
    """Hours of one unit delivered to entries, day by day from `first` on.

    earlier: numbers of days before `first`, ascending, between which older usage is summed; other days before `first`
    count from the one before them. cumulative: (len(earlier) + n_days + 1, entries), 0 first.
    """

    first: date
    cumulative: F8
    column_of: Mapping[UUID, int]
    earlier: tuple[int, ...] = ()

    @property
    def n_days(self) -> int:
        return len(self.cumulative) - 1 - len(self.earlier)

    def before(self, entry_uid: UUID, from_day: date, to_day: date) -> float:
        """Hours from the start of one day to the start of another; days outside count nothing."""
        column = self.column_of.get(entry_uid)
        if column is None or to_day <= from_day:
            return 0.0
        begin, end = (self._row(day.toordinal()) for day in (from_day, to_day))
        return float(self.cumulative[end, column] - self.cumulative[begin, column])

    def each_before(self, uids: Sequence[UUID], first: npt.NDArray[np.int64], to_day: date) -> F8:
        """`before` of many entries, each from a day of its own, by number, at least 0; 0 for entries not known."""
        columns = np.array([self.column_of.get(uid, -1) for uid in uids], np.int64)
        end = self._row(to_day.toordinal())
        days, inverse = np.unique(first, return_inverse=True)
        begin = np.minimum(np.array([self._row(day) for day in days.tolist()], np.int64)[inverse], end)
        hours = np.maximum(self.cumulative[end, columns] - self.cumulative[begin, columns], 0.0)
        return np.where(columns < 0, 0.0, hours)

    def _row(self, day: int) -> int:
        """Row of `cumulative` at the start of a day, by its number."""
        since = day - self.first.toordinal()
        if since >= 0:
            return len(self.earlier) + min(since, self.n_days)
        return max(bisect_right(self.earlier, day) - 1, 0)

    def going_on(self, last: date, until: date, *, pace_days: int) -> UsedByDay:
        """These days up to `last`, and each later one at the mean of the `pace_days` before it; `until` is the last."""
        n = min(max((last - self.first).days + 1, 0), self.n_days)
        measured = self.cumulative[: len(self.earlier) + n + 1]
        of_days = min(pace_days, n)
        pace = np.maximum(measured[-1] - measured[len(measured) - 1 - of_days], 0.0) / max(of_days, 1)
        ahead = np.arange(1, max((until - last).days, 0) + 1)[:, None] * pace
        return replace(self, cumulative=np.concatenate([measured, measured[-1] + ahead]))


@dataclass(frozen=True, slots=True)
class LevelReached:
    """The level of thresholds at which an entry is. shares: before and after it lowered them; None if it didn't."""

    level: int
    shares: tuple[float, float] | None = None


@dataclass
class RuledState:
    """What is true before a step; `apply` makes it true after it.

    used: by the symbol of the unit. shares: of entries, without those that inherit. parents: of entries, to know
    siblings. done: keys by rule. levels: by rule and entry. n_changed: entries that a rule changed on a day. queues and
    concerned: of rules, by name, and followers: by unit, the allocation that continues one; made when asked for.
    charges: hours charged to each allocation, by unit, entry and day.
    """

    allocations: dict[UUID, RuledAllocation]
    used: Mapping[str, UsedByDay]
    shares: dict[UUID, float]
    parents: Mapping[UUID, UUID]
    paths: Mapping[UUID, str]
    done: dict[str, set[str]] = field(default_factory=dict)
    levels: dict[tuple[str, UUID], LevelReached] = field(default_factory=dict)
    limits: dict[UUID, tuple[str, LimitsEffect]] = field(default_factory=dict)
    n_changed: dict[tuple[str, date], int] = field(default_factory=dict)
    queues: dict[str, DueQueue] = field(default_factory=dict)
    concerned: dict[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    followers: dict[str, dict[UUID, RuledAllocation]] | None = None
    charges: dict[tuple[str, UUID, date], dict[UUID, float]] = field(default_factory=dict)
    is_stale: bool = False  # `rows` lacks what was carried over since

    def is_done(self, rule: str, key: str) -> bool:
        return key in self.done.get(rule, ())

    def has_room(self, rule: str, day: date, most: int) -> bool:
        """Whether the rule may change another entry on that day."""
        return self.n_changed.get((rule, day), 0) < most

    def used_before(self, allocation: RuledAllocation, day: date) -> float:
        """Hours charged to the allocation until the start of a day or its end, at least 0: see `balance`.

        By the amounts before the rule's steps of the day: many allocations of an entry are worked out once together.
        """
        until = min(day, allocation.ends_on + DAY)
        used, rows = self.used.get(allocation.unit), self.rows.get(allocation.unit)
        if used is None or rows is None or until <= allocation.starts_on:
            return 0.0
        key = allocation.unit, allocation.entry_uid, until
        if key not in self.charges:
            run = rows.run(allocation.entry_uid, until - DAY)

            def hours(from_day: date, to_day: date) -> float:
                return used.before(allocation.entry_uid, from_day, to_day)

            own = charged([rows.grant(row) for row in run], hours, until)
            self.charges[key] = dict(zip((rows.uids[row] for row in run), own, strict=True))
        return max(self.charges[key][allocation.uid], 0.0)

    def refresh(self) -> None:
        """Add what was carried over to `rows`, and forget what was charged: once for all steps of a rule on a day."""
        self.charges.clear()
        if self.is_stale:
            self.__dict__.pop("rows", None)
            self.is_stale = False

    @cached_property
    def rows(self) -> dict[str, RowsOfUnit]:
        """Allocations by the symbol of their unit, as arrays."""
        units: dict[str, list[RuledAllocation]] = {}
        for allocation in self.allocations.values():
            units.setdefault(allocation.unit, []).append(allocation)
        return {unit: RowsOfUnit(rows) for unit, rows in units.items()}

    def apply(self, step: Step) -> None:
        self.done.setdefault(step.rule, set()).add(step.key)
        if step.level is not None:
            self.levels[step.rule, step.entry_uid] = LevelReached(step.level, _shares_of(step, self.levels))
        at = step.rule, step.on
        self.n_changed[at] = self.n_changed.get(at, 0) + step.n_changed
        for effect in step.effects:
            if isinstance(effect, SharesEffect):
                self.shares[effect.entry_uid] = effect.after
            elif isinstance(effect, AmountEffect):
                row = self.allocations[effect.allocation_uid]
                by_rules = row.by_rules + effect.after - row.amount
                self.allocations[row.uid] = replace(row, amount=effect.after, by_rules=by_rules)
                self.rows[row.unit].set_amount(row.uid, effect.after)
            elif isinstance(effect, LimitsEffect):
                self.limits[effect.entry_uid] = step.rule, effect
            elif isinstance(effect, CarryEffect):
                self.allocations[effect.allocation_uid] = RuledAllocation(
                    effect.allocation_uid,
                    step.entry_uid,
                    step.path,
                    effect.starts_on,
                    effect.ends_on,
                    effect.amount,
                    effect.unit,
                    carried_from=effect.carried_from,
                )
                self.is_stale = True


def _shares_of(step: Step, levels: Mapping[tuple[str, UUID], LevelReached]) -> tuple[float, float] | None:
    """Shares before the first lowering and after this step; None after they were put back."""
    effect = next((each for each in step.effects if isinstance(each, SharesEffect)), None)
    former = levels.get((step.rule, step.entry_uid))
    before = former.shares if former is not None else None
    if step.level == 0:
        return None
    if effect is None:
        return before
    return (effect.before if before is None else before[0], effect.after)


class RowsOfUnit:
    """Allocations of one unit as arrays, sorted by entry.

    entries: uids. entry_of: index of each allocation's entry. starts, ends: numbers of days. amounts: present ones.
    uids: of allocations. index: of entries.
    """

    def __init__(self, rows: Sequence[RuledAllocation]) -> None:
        ordered = sorted(rows, key=lambda row: row.entry_uid.int)
        self._rows = ordered
        self.entries = list(dict.fromkeys(row.entry_uid for row in ordered))
        index = {uid: at for at, uid in enumerate(self.entries)}
        self.entry_of = np.array([index[row.entry_uid] for row in ordered])
        self.starts = np.array([row.starts_on.toordinal() for row in ordered])
        self.ends = np.array([row.ends_on.toordinal() for row in ordered])
        self.amounts = np.array([row.amount for row in ordered])
        self.uids = [row.uid for row in ordered]
        self._at = {row.uid: at for at, row in enumerate(ordered)}
        self._bounds = np.searchsorted(self.entry_of, np.arange(len(self.entries) + 1))
        self.index = index

    def set_amount(self, uid: UUID, amount: float) -> None:
        self.amounts[self._at[uid]] = amount

    def run(self, entry_uid: UUID, day: date) -> list[int]:
        """Rows of an entry that count on a day: see `run_on`."""
        at = self.index[entry_uid]
        own = slice(self._bounds[at], self._bounds[at + 1])
        mask = run_on(self.starts[own], self.ends[own], day.toordinal())
        return [int(row) for row in np.flatnonzero(mask) + self._bounds[at]]

    def grant(self, row: int) -> Grant:
        of = self._rows[row]
        return Grant(of.starts_on, of.ends_on, float(self.amounts[row]), of.is_carried)

    def beside_ended(self, first: npt.NDArray[np.int64], day: date) -> list[int]:
        """Indexes of entries of which an allocation ended before a day, not before the entry's `first` day."""
        since = first[self.entry_of]
        ended = (since > 0) & (self.ends >= since) & (self.ends < day.toordinal())
        return [int(at) for at in np.unique(self.entry_of[ended])]

    def holding(self, entry_uid: UUID, day: date) -> Holding:
        """Of an entry with a current allocation on the day."""
        run = [self.grant(row) for row in self.run(entry_uid, day)]
        valid = tuple(each for each in run if each.ends_on >= day)
        return Holding(day, valid, tuple(each for each in run if each.ends_on < day))

    def current(self, day: date) -> tuple[F8, npt.NDArray[np.int64]]:
        """Of each entry: the amounts that are current on a day, together, and their first day; 0 without any."""
        number = day.toordinal()
        is_current = (self.starts <= number) & (number <= self.ends)
        weights = self.amounts * is_current
        amounts: F8 = np.bincount(self.entry_of, weights=weights, minlength=len(self.entries)).astype(np.float64)
        first = np.full(len(self.entries), np.iinfo(np.int64).max)
        np.minimum.at(first, self.entry_of[is_current], self.starts[is_current])
        return amounts, np.where(first == np.iinfo(np.int64).max, 0, first).astype(np.int64)


@dataclass
class DueQueue:
    """Days on which something is due for allocations, in order; what came and isn't done waits.

    days: (number of the day, uid, which of its days, from 1).
    """

    days: Sequence[tuple[int, UUID, int]]
    position: int = 0
    waiting: dict[UUID, int] = field(default_factory=dict)

    def until(self, day: date) -> Mapping[UUID, int]:
        """What waits on a day: of each allocation the last of its days that came."""
        number = day.toordinal()
        while self.position < len(self.days) and self.days[self.position][0] <= number:
            _day, uid, n = self.days[self.position]
            self.waiting[uid] = n
            self.position += 1
        return self.waiting
