"""Months and quarters of an allocation, counted from its first day, and of the calendar. Days, so without a zone."""

from __future__ import annotations

from calendar import monthrange
from datetime import date

from apps.policies.allocation_rules import MONTHS_OF


def months_later(day: date, months: int) -> date:
    """This day of a later month, or that month's last: 31 January and one month is 28 or 29 February."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def period_starts(starts_on: date, ends_on: date, every: str) -> tuple[date, ...]:
    """First days of the periods of an allocation; the last period may be shorter."""
    months, starts = MONTHS_OF[every], list[date]()
    while (day := months_later(starts_on, months * len(starts))) <= ends_on:
        starts.append(day)
    return tuple(starts)


def calendar_period(day: date, every: str) -> date:
    """First day of the calendar's month or quarter with this day."""
    months = MONTHS_OF[every]
    return date(day.year, (day.month - 1) // months * months + 1, 1)
