"""Months of daily series in the time zone of the site."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from apps.core.errors import FieldProblem, Invalid
from apps.priorities.selectors.rows import PolicyView
from apps.series.days import site_zone

_FIRST_YEAR = 1970


@dataclass(frozen=True, slots=True)
class Month:
    """A month. first_on: its first day."""

    first_on: date

    @property
    def last_on(self) -> date:
        return (self.first_on + timedelta(days=32)).replace(day=1) - timedelta(days=1)

    @property
    def n_days(self) -> int:
        return self.last_on.day

    @property
    def text(self) -> str:
        return f"{self.first_on:%Y-%m}"

    def before(self, n: int = 1) -> Month:
        index = self.first_on.year * 12 + self.first_on.month - 1 - n
        return Month(date(index // 12, index % 12 + 1, 1))

    def __contains__(self, on: date) -> bool:
        return self.first_on <= on <= self.last_on


def month_of(on: date) -> Month:
    return Month(on.replace(day=1))


def day_today(view: PolicyView) -> date:
    return view.now.astimezone(site_zone()).date()


def read_month(text: str, today: date) -> Month:
    """A month such as 2026-10, from 1970 up to the current one."""
    message = f"is a month from {_FIRST_YEAR}-01 to {today:%Y-%m}, such as {month_of(today).before().text}"
    try:
        month = Month(date.fromisoformat(f"{text}-01")) if len(text) == 7 else None
    except ValueError:
        month = None
    if month is None or not date(_FIRST_YEAR, 1, 1) <= month.first_on <= today:
        raise Invalid(f"month {message}.", fields=[FieldProblem("month", message)])
    return month
