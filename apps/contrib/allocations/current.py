"""Which allocations of an entry in a unit are those of now, and what is left of them, for every page and answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from zoneinfo import ZoneInfo

from apps.contrib.allocations.balance import Holding, HoursUsed, holding_on
from apps.contrib.allocations.periods import DAY, HOUR, Period, begins_at
from apps.contrib.allocations.services import period_of
from apps.contrib.allocations.summary import allocated_in
from apps.policies.models import Allocation
from apps.priorities.delivered_usage import Delivered

LISTED_AFTER_END_DAYS = 60


@dataclass(frozen=True, eq=False)
class Current:
    """The allocations of an entry that are shown: those of one day, which is today if any is valid today.

    holding: of that day. allocations: the valid ones of it. renewed_on: the first day after it on which another
    begins. coming: those that begin later, before these end.
    """

    holding: Holding
    allocations: tuple[Allocation, ...]
    renewed_on: date | None
    coming: tuple[Allocation, ...]

    @cached_property
    def period(self) -> Period:
        return Period(self.holding.starts_on, self.holding.ends_on)

    def due(self, zone: ZoneInfo, now: datetime) -> float:
        """Each spread evenly over its real hours, by now."""
        periods = ((each.amount, period_of(each)) for each in self.allocations)
        return sum(amount * period.hours(zone, until=now) / period.hours(zone) for amount, period in periods)

    def used(self, hours: HoursUsed, today: date) -> float:
        """Hours charged to them by now; 0 before they begin. hours: see `hours_of`."""
        if self.period.starts_on > today:
            return 0.0
        return self.holding.used(hours, min(today, self.period.ends_on) + DAY)

    def remaining(self, used: float, today: date) -> float:
        """What can still be used of them, below 0 if more was used; after their end nothing."""
        return 0.0 if self.period.ends_on < today else self.holding.amount - used

    def parts(self, hours: HoursUsed, zone: ZoneInfo, today: date) -> tuple[tuple[datetime, float], ...]:
        """End and hours left of those valid today that end before the last of them, by end."""
        if self.holding.on != today:
            return ()
        return tuple((begins_at(day + DAY, zone), left) for day, left in self.holding.left_of_parts(hours, today + DAY))

    def instants(self, zone: ZoneInfo) -> list[datetime]:
        """Between which the usage has to be known."""
        return [begins_at(day, zone) for day in self.holding.days()]

    def added(self, zone: ZoneInfo) -> float:
        """What those that begin later add on these days, each spread evenly over its real hours."""
        return sum(allocated_in(self.coming, self.period, zone).values())


def current_of(allocations: Iterable[Allocation], today: date) -> Current | None:
    """Of the allocations of one entry in one unit, those of now; None if all are long over. See the module."""
    rows = sorted(allocations, key=lambda row: (row.starts_on, row.ends_on, row.pk))
    day: date | None = today
    if not any(row.starts_on <= today <= row.ends_on for row in rows):
        last = max((row.ends_on for row in rows if row.ends_on < today), default=date.min)
        coming = min((row.starts_on for row in rows if row.starts_on > today), default=None)
        day = last if last >= today - LISTED_AFTER_END_DAYS * DAY else coming
    holding = None if day is None else holding_on(rows, day)
    if holding is None:
        return None
    later = [row for row in rows if row.starts_on > holding.on]
    coming_before_end = tuple(row for row in later if row.starts_on <= holding.ends_on)
    valid = tuple(row for row in rows if row.starts_on <= holding.on <= row.ends_on)
    return Current(holding, valid, min((row.starts_on for row in later), default=None), coming_before_end)


def hours_of(used: Delivered, i: int, zone: ZoneInfo, now: datetime) -> HoursUsed:
    """Hours that an entry used between two days, by now. used: with the `instants` of its current allocations."""

    def hours(from_day: date, to_day: date) -> float:
        begin, end = (min(begins_at(day, zone), now) for day in (from_day, to_day))
        return used.between(i, begin, end) / HOUR.total_seconds()

    return hours
