"""Periods of days. Their hours are real: a day on which clocks change has 23 or 25, leap years have one more day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

FIRST_DAY, LAST_DAY = date(1970, 1, 1), date(2999, 12, 31)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, order=True)
class Period:
    """A period from the start of its first day to the end of its last day."""

    starts_on: date
    ends_on: date

    def __post_init__(self) -> None:
        if not FIRST_DAY <= self.starts_on <= self.ends_on <= LAST_DAY:
            raise ValueError(
                f"a period's last day must not be before its first, and both must be from {FIRST_DAY} to {LAST_DAY}"
            )

    @property
    def n_days(self) -> int:
        return (self.ends_on - self.starts_on).days + 1

    def __contains__(self, day: date) -> bool:
        return self.starts_on <= day <= self.ends_on

    def overlap(self, other: Period) -> Period | None:
        """Return the days that both periods contain, or None."""
        starts_on, ends_on = max(self.starts_on, other.starts_on), min(self.ends_on, other.ends_on)
        return Period(starts_on, ends_on) if starts_on <= ends_on else None

    def instants(self, zone: ZoneInfo) -> tuple[datetime, datetime]:
        """Return its start and end as UTC instants."""
        return begins_at(self.starts_on, zone), begins_at(self.ends_on + DAY, zone)

    def hours(self, zone: ZoneInfo, *, until: datetime | None = None) -> float:
        """Return the real hours from its start to its end, or to an instant within it."""
        begin, end = self.instants(zone)
        stop = end if until is None else min(max(until, begin), end)
        return (stop - begin) / HOUR


def begins_at(day: date, zone: ZoneInfo) -> datetime:
    """Return the first instant of a day, in UTC; if clocks change at midnight, the one right after the change."""
    return datetime.combine(day, time(), tzinfo=zone).astimezone(UTC)


def day_of(at: datetime, zone: ZoneInfo) -> date:
    return at.astimezone(zone).date()


def whole_year(day: date) -> Period:
    return Period(date(day.year, 1, 1), date(day.year, 12, 31))


def uncovered(period: Period, parts: Sequence[Period]) -> list[Period]:
    """Return the days of a period that none of the parts contains."""
    left, day = [], period.starts_on
    for part in sorted(each for each in parts if each.overlap(period)):
        if part.starts_on > day:
            left.append(Period(day, part.starts_on - DAY))
        day = max(day, part.ends_on + DAY)
    if day <= period.ends_on:
        left.append(Period(day, period.ends_on))
    return left
