"""Days as pages of core-hours ask for them: the site's zone, the period of an address, and how it is written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID
from zoneinfo import ZoneInfo

from django.conf import settings
from django.http import HttpRequest
from django.utils import formats
from django.utils.translation import gettext as _

from apps.core.errors import NotFound
from apps.policies.allocations.records import DAY, FIRST_DAY, LAST_DAY, Period, day_of, whole_year


def zone() -> ZoneInfo:
    """In which days begin and end."""
    return ZoneInfo(settings.TIME_ZONE)


def today(now: datetime) -> date:
    return day_of(now, zone())


@dataclass(frozen=True, slots=True)
class AskedPeriod:
    """The period of an address; this year, with the problem, where it names none that can be."""

    period: Period
    problem: str = ""

    @property
    def query(self) -> str:
        return query_of(self.period)


def asked_period(request: HttpRequest, now: datetime) -> AskedPeriod:
    usual = whole_year(today(now))
    first, last = request.GET.get("from", ""), request.GET.get("to", "")
    if not first and not last:
        return AskedPeriod(usual)
    try:
        starts_on = date.fromisoformat(first) if first else usual.starts_on
        ends_on = date.fromisoformat(last) if last else max(usual.ends_on, starts_on)
        return AskedPeriod(Period(starts_on, ends_on))
    except ValueError:
        return AskedPeriod(usual, _("A period goes from one day to a later one, such as 2026-01-01 to 2026-12-31."))


def query_of(period: Period) -> str:
    return urlencode({"from": period.starts_on.isoformat(), "to": period.ends_on.isoformat()})


def asked_uid(text: str) -> UUID | None:
    """An entry that an address names; what is no uid names none that there is."""
    try:
        return UUID(text) if text else None
    except ValueError:
        raise NotFound(_("There is no such entry in this policy.")) from None


def neighbours(period: Period, now: datetime) -> list[dict[str, Any]]:
    """Last year, this one and the next, to choose from."""
    this = whole_year(today(now))
    found = []
    for year in (this.starts_on.year - 1, this.starts_on.year, this.starts_on.year + 1):
        choice = whole_year(date(year, 1, 1))
        found.append({"label": str(year), "query": query_of(choice), "is_chosen": choice == period})
    return found


def period_words(period: Period) -> str:
    """2026; March 2026; 1 Apr to 31 Dec 2026; 1 Jul 2026 to 30 Jun 2027."""
    if period == whole_year(period.starts_on):
        return str(period.starts_on.year)
    if period.starts_on.day == 1 and period.ends_on == month_of(period.starts_on).ends_on:
        return formats.date_format(period.starts_on, "F Y")
    same_year = period.starts_on.year == period.ends_on.year
    first = formats.date_format(period.starts_on, "j M" if same_year else "j M Y")
    return _("%(first)s to %(last)s") % {"first": first, "last": formats.date_format(period.ends_on, "j M Y")}


def day_words(day: date, now: datetime) -> str:
    """31 Dec, with the year if it is another one."""
    return formats.date_format(day, "j M" if day.year == today(now).year else "j M Y")


def month_of(day: date) -> Period:
    """The month that a day is in."""
    following = (day.replace(day=28) + timedelta(days=4)).replace(day=1)
    return Period(day.replace(day=1), following - DAY)


def asked_month(request: HttpRequest, now: datetime) -> Period:
    """`?month=2027-03`; the present one where it names none."""
    try:
        day = date.fromisoformat(f"{request.GET.get('month', '')}-01")
    except ValueError:
        return month_of(today(now))
    return month_of(day) if FIRST_DAY <= day <= LAST_DAY else month_of(today(now))


def month_key(day: date) -> str:
    return f"{day.year:04}-{day.month:02}"
