"""Instants at which the calendar sets usage to zero, such as each quarter's first midnight.

These are Slurm's PriorityUsageResetPeriod: the first second of a day, of a week from Sunday, of a month, of a quarter
or of a year, in the zone of the site.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from apps.engine.errors import BadParameter

_DAY_S = 86_400.0

# Days of the longest period of each name. A change of zone adds up to one day, such as Samoa's of 2011.
_LONGEST_RESET_DAYS = {"daily": 1, "weekly": 7, "monthly": 31, "quarterly": 92, "yearly": 366}


def _begin_of_week(day: date) -> date:
    return day - timedelta(days=day.isoweekday() % 7)


def _begin_of_quarter(day: date) -> date:
    return date(day.year, day.month - (day.month - 1) % 3, 1)


# First day of the period in which a day lies, by the name of the period.
_FIRST_DAYS: dict[str, Callable[[date], date]] = {
    "daily": lambda day: day,
    "weekly": _begin_of_week,
    "monthly": lambda day: day.replace(day=1),
    "quarterly": _begin_of_quarter,
    "yearly": lambda day: date(day.year, 1, 1),
}
RESETS = tuple(_FIRST_DAYS)


def zone_of(name: str) -> ZoneInfo:
    """The time zone of this name; BadParameter if there is none."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise BadParameter(f"{name!r} is no time zone, such as Europe/Berlin", place="reset_zone") from None


def longest_period_s(reset: str) -> float:
    """Seconds that no period of this name exceeds, whatever the zone."""
    return (_LONGEST_RESET_DAYS[reset] + 1) * _DAY_S


def period_start_s(at_s: float, reset: str, zone: str) -> float:
    """The last reset at or before an instant; both in seconds since 1970-01-01 00:00 UTC.

    A midnight that summer time leaves out is the first second after it, and of two it is the first.
    """
    where = zone_of(zone)
    day = _FIRST_DAYS[reset](datetime.fromtimestamp(math.floor(at_s), where).date())
    start_s = _midnight_s(day, where)
    return start_s if start_s <= at_s else _midnight_s(_FIRST_DAYS[reset](day - timedelta(days=1)), where)


def _midnight_s(day: date, zone: ZoneInfo) -> float:
    return datetime.combine(day, time(), zone).timestamp()
