"""What is left of the allocations of an entry in a unit on a day: the one definition. Pure.

    A = Σ amounts of the allocations that are valid on the day
    U = Σ hours charged to these by now, at least 0
    remaining = A − U, below 0 if more was used

Each hour is charged once, to one of the allocations that are valid when it is used: to the one that ends first. Of
those that end on the same day what was carried over pays first, and the others by what is left of each. What nothing is
left for is charged to those that end last, and so is what corrections credit. So hours of an allocation that has ended
can't be used any more, and what it paid for isn't use of those that remain.

With T the first of the first days of the valid ones, U is also the use since T without what ended ones paid for since
T: as ended ones end before all that are valid, nothing else is charged to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from heapq import heappop, heappush
from itertools import pairwise
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
HoursUsed = Callable[[date, date], float]  # from the start of a day to the start of another; of the future: nothing

_DAY = timedelta(days=1)


class Granted(Protocol):
    """What an allocation is here: an amount from its first to its last day. is_carried: a rule carried it over."""

    @property
    def starts_on(self) -> date: ...
    @property
    def ends_on(self) -> date: ...
    @property
    def amount(self) -> float: ...
    @property
    def is_carried(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Grant:
    starts_on: date
    ends_on: date
    amount: float
    is_carried: bool = False


G = TypeVar("G", bound=Granted)


def run_on(starts: I8, ends: I8, day: int) -> Mask:
    """Of allocations by the numbers of their first and last days: those valid on a day, and those that ended before it
    and overlap them, or one another, in a chain. Nothing else is charged hours that these could pay for."""
    valid = (starts <= day) & (day <= ends)
    if not valid.any():
        return valid
    begun, first = starts <= day, starts[valid].min()
    while True:
        run: Mask = begun & (ends >= first)
        earlier = starts[run].min()
        if earlier == first:
            return run
        first = earlier


def charged(grants: Sequence[Granted], used: HoursUsed, until: date) -> list[float]:
    """Hours charged to each allocation up to the start of a day; below 0 where more was credited.

    All that could pay have to be among them: see `run_on`.
    """
    order = sorted(range(len(grants)), key=lambda at: (*_turn(grants[at]), grants[at].starts_on))
    amounts = np.array([max(grants[at].amount, 0.0) for at in order])
    starts = [grants[at].starts_on for at in order]
    turns = [_turn(grants[at]) for at in order]
    firsts = [at for at in range(len(order)) if not at or turns[at] != turns[at - 1]]  # of those with the same turn
    lasts = dict(zip(firsts, [*firsts[1:], len(order)], strict=True))
    left, beyond = amounts.copy(), np.zeros(len(order))
    begun, by_day = dict(zip(firsts, firsts, strict=True)), _by_day(starts, firsts, lasts)
    days = sorted({min(day, until) for grant in grants for day in (grant.starts_on, grant.ends_on + _DAY)})
    paying: list[int] = []
    valid: list[tuple[int, int]] = []
    for day, following in pairwise(days):
        for first in by_day.get(day, ()):
            while begun[first] < lasts[first] and starts[begun[first]] <= day:
                begun[first] += 1
            heappush(paying, first)
            heappush(valid, (-turns[first][0].toordinal(), -first))
        while valid and -valid[0][0] < day.toordinal():
            heappop(valid)
        if not valid:
            continue
        hours = used(day, following)
        while paying and hours > 0:
            own = slice(paying[0], begun[paying[0]])
            together = float(left[own].sum()) if turns[paying[0]][0] >= day else 0.0
            if together > hours:
                left[own] *= (together - hours) / together
                hours = 0.0
                break
            left[own] = 0.0 if together else left[own]
            hours -= together
            heappop(paying)
        if hours:
            last = -valid[0][1]
            own = slice(last, begun[last])
            whole = float(amounts[own].sum())
            beyond[own] += hours * amounts[own] / whole if whole else hours / (own.stop - own.start)
    result = [0.0] * len(order)
    for at, hours in zip(order, (amounts - left + beyond).tolist(), strict=True):
        result[at] = hours
    return result


def _turn(grant: Granted) -> tuple[date, bool]:
    return grant.ends_on, not grant.is_carried


def _by_day(starts: Sequence[date], firsts: Sequence[int], lasts: dict[int, int]) -> dict[date, set[int]]:
    """By first day, the turns in which an allocation begins on it."""
    by_day: dict[date, set[int]] = {}
    for first in firsts:
        for at in range(first, lasts[first]):
            by_day.setdefault(starts[at], set()).add(first)
    return by_day


@dataclass(frozen=True, slots=True)
class Balance:
    """What is left of the allocations that are valid on a day. U and A: see the module."""

    starts_on: date
    ends_on: date
    allocated: float
    used: float

    @property
    def remaining(self) -> float:
        return self.allocated - self.used


@dataclass(frozen=True, slots=True)
class Holding:
    """The allocations of an entry in a unit on a day: `valid` ones, at least one, and `ended` ones of their run."""

    on: date
    valid: tuple[Granted, ...]
    ended: tuple[Granted, ...]

    @property
    def starts_on(self) -> date:
        return min(each.starts_on for each in self.valid)

    @property
    def ends_on(self) -> date:
        return max(each.ends_on for each in self.valid)

    @property
    def amount(self) -> float:
        return sum(each.amount for each in self.valid)

    def days(self) -> set[date]:
        """Between which the hours used have to be known."""
        if not self.ended and all(each.ends_on == self.ends_on for each in self.valid):
            return {self.starts_on, self.ends_on + _DAY}
        return {day for each in (*self.valid, *self.ended) for day in (each.starts_on, each.ends_on + _DAY)}

    def used(self, hours: HoursUsed, until: date) -> float:
        """U, up to the start of a day."""
        if not self.ended:
            return max(hours(self.starts_on, until), 0.0)
        own = charged((*self.valid, *self.ended), hours, until)
        return max(sum(own[: len(self.valid)]), 0.0)

    def left_of_parts(self, hours: HoursUsed, until: date) -> list[tuple[date, float]]:
        """What is left, at least 0, of the valid ones that end before the last of them: by last day."""
        if all(each.ends_on == self.ends_on for each in self.valid):
            return []
        left: dict[date, float] = {}
        for each, own in zip(self.valid, charged((*self.valid, *self.ended), hours, until), strict=False):
            left[each.ends_on] = left.get(each.ends_on, 0.0) + each.amount - own
        del left[self.ends_on]
        return [(day, max(amount, 0.0)) for day, amount in sorted(left.items())]

    def balance(self, hours: HoursUsed, until: date) -> Balance:
        return Balance(self.starts_on, self.ends_on, self.amount, self.used(hours, until))


def holding_on(grants: Iterable[Granted], day: date) -> Holding | None:
    """Of the allocations of one entry in one unit, those that count on a day; None if none is valid then."""
    own = list(grants)
    starts = np.array([each.starts_on.toordinal() for each in own], np.int64)
    ends = np.array([each.ends_on.toordinal() for each in own], np.int64)
    run = [own[at] for at in np.flatnonzero(run_on(starts, ends, day.toordinal())).tolist()]
    valid = tuple(each for each in run if each.ends_on >= day)
    return Holding(day, valid, tuple(each for each in run if each.ends_on < day)) if valid else None
