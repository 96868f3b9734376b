"""Days of the site's time zone in whole UTC hours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby
from zoneinfo import ZoneInfo

from django.conf import settings

from apps.series.daily_series import HOUR_S

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Day:
    """The hours from `from_s` up to, not including, `to_s`, in epoch seconds. A day has 23 or 25 hours where clocks
    change.
    """

    on: date
    from_s: int
    to_s: int

    @property
    def from_at(self) -> datetime:
        return datetime.fromtimestamp(self.from_s, UTC)

    @property
    def to_at(self) -> datetime:
        return datetime.fromtimestamp(self.to_s, UTC)


def site_zone() -> ZoneInfo:
    return ZoneInfo(settings.TIME_ZONE)


def day_of(on: date, zone: ZoneInfo) -> Day:
    return Day(on, _first_hour_s(on, zone), _first_hour_s(on + _DAY, zone))


def day_at(at: datetime, zone: ZoneInfo) -> Day:
    """Return the day that contains the hour of this instant."""
    hour_s = int(at.timestamp()) // HOUR_S * HOUR_S
    on = datetime.fromtimestamp(hour_s, UTC).astimezone(zone).date()
    day = day_of(on, zone)
    if hour_s < day.from_s:  # the day starts within this UTC hour, which counts to the day before
        return day_of(on - _DAY, zone)
    return day


def days_of(first_on: date, last_on: date, zone: ZoneInfo) -> list[Day]:
    """List the days from first to last, both included; empty if the last precedes the first."""
    n_days = (last_on - first_on).days + 1
    starts = [_first_hour_s(first_on + step * _DAY, zone) for step in range(n_days + 1)] if n_days > 0 else []
    return [Day(first_on + step * _DAY, starts[step], starts[step + 1]) for step in range(max(n_days, 0))]


def last_complete_day(at: datetime, zone: ZoneInfo) -> date:
    """Return the last day that has ended."""
    return day_at(at, zone).on - _DAY


def months_of(days: Sequence[Day]) -> Iterator[tuple[date, list[Day]]]:
    """Group consecutive days by calendar month, each with the month's first day."""
    for first_on, month_days in groupby(days, key=lambda day: day.on.replace(day=1)):
        yield first_on, list(month_days)


def _first_hour_s(on: date, zone: ZoneInfo) -> int:
    begins_s = datetime.combine(on, time(), zone).astimezone(UTC).timestamp()
    return int(-(-begins_s // HOUR_S)) * HOUR_S
