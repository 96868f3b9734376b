"""State of the convergence page, parsed from its address: what is shown, over which days, and how it is computed.

The page and all of its figures read the same address, so they can't differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal, cast
from uuid import UUID

from django.http import QueryDict
from django.utils import formats
from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid
from apps.core.periods import PERIODS_DAYS
from apps.series.convergence.periods import Period, available_days_text, check_period, default_period, whole_period
from apps.series.convergence.query import DAY_S
from apps.series.convergence.records import ChildrenQuery
from apps.series.convergence.share_methods import ShareMethod, read_share_method, reject_windowed
from apps.series.daily_series import SeriesState

ALL = "all"
HOUR = "hour"  # value of `step`: the last seven days by the hour
TODAY = "today"  # value of `measure`: compare all days with the head revision
RANGES = (*map(str, PERIODS_DAYS), ALL)
DEFAULT_RANGE = "30"
Unit = Literal["share", "points"]
UNITS: tuple[Unit, ...] = ("share", "points")
LEAST_RANGE_DAYS = 2  # between the ends of a range
MOST_DAYS_AHEAD = 90
_DAYS_AHEAD = {"7": 5, "30": 24, "90": 30, "365": 60, ALL: 60}
_NAMES_OF_RANGE = ("range", "days", "from", "to", "step", "zoom")


@dataclass(frozen=True, slots=True)
class PageQuery:
    """range_: a preset, or "" for two dates. period: days of the series that are read. until: last day of the axis,
    None: as many days ahead as the range has by default. zoom: first and last day of the part that is shown.

    unit: shares, or points from the target. is_compared: the period before is drawn, too. entry: the selected one;
    level: the entry whose children are shown; None: the default ones.
    """

    range_: str
    period: Period
    until: date | None
    method: ShareMethod
    zoom: tuple[date, date] | None = None
    unit: Unit = "share"
    is_compared: bool = False
    entry: UUID | None = None
    level: UUID | None = None
    by_hour: bool = False
    against_today: bool = False

    @property
    def n_days_ahead(self) -> int:
        return 0 if self.by_hour else _DAYS_AHEAD.get(self.range_, 0)

    @property
    def before(self) -> Period:
        """The equally long period before; limited by the first day of the calendar."""
        ends = (self.period.from_on, self.period.to_on)
        first, last = (date.fromordinal(max(day.toordinal() - self.period.n_days, 1)) for day in ends)
        return Period(first, last)

    def children(self, *, itself: bool = False) -> ChildrenQuery:
        return ChildrenQuery(
            period=self.period,
            method=self.method,
            by_hour=self.by_hour,
            against_today=self.against_today,
            itself=itself,
        )


def read_page_query(query: QueryDict, state: SeriesState, today: date) -> PageQuery:
    """Parse the address. Raises Invalid, with the parameter's name, for what can't be shown."""
    method = read_share_method_of(query)
    by_hour = is_by_hour(query, state)
    if by_hour:
        reject_windowed(method)
    range_, period, until = _read_range(query, state, today)
    unit = query.get("unit", UNITS[0])
    if unit not in UNITS:
        raise _unknown("unit", unit, UNITS)
    return PageQuery(
        range_=range_,
        period=period,
        until=until,
        method=method,
        zoom=_read_zoom(query.get("zoom", "")),
        unit=cast("Unit", unit),
        is_compared=query.get("compare") == "1" and not by_hour,
        entry=_read_uid(query, "entry"),
        level=_read_uid(query, "level"),
        by_hour=by_hour,
        against_today=query.get("measure") == TODAY and not by_hour,
    )


def usual_page_query(query: QueryDict, state: SeriesState, today: date) -> PageQuery:
    """The default state, for an address that can't be read."""
    by_hour = is_by_hour(query, state)
    return PageQuery(DEFAULT_RANGE, default_period(state, today), None, ShareMethod(), by_hour=by_hour)


def without_range(query: QueryDict) -> QueryDict:
    """A copy of the address without any range or zoom."""
    copy = query.copy()
    for name in _NAMES_OF_RANGE:
        copy.pop(name, None)
    return copy


def is_by_hour(query: QueryDict, state: SeriesState) -> bool:
    """Whether hours are shown: by choice, or because no day has been built yet."""
    return query.get("step") == HOUR or (state.through_on is None and state.hours_through_at is not None)


def read_share_method_of(query: QueryDict) -> ShareMethod:
    window = query.get("window", "")
    try:
        days = float(window) if window else None
    except ValueError:
        message = _("Invalid number of days “%(text)s”.") % {"text": window[:40]}
        raise Invalid(message, fields=[FieldProblem("window", message)]) from None
    return read_share_method(query.get("view", ""), query.get("of", ""), None if days is None else days * DAY_S)


def _read_range(query: QueryDict, state: SeriesState, today: date) -> tuple[str, Period, date | None]:
    first, last = query.get("from", "").strip(), query.get("to", "").strip()
    if first or last:
        return ("", *_read_dates(first, last, state, today))
    name = "range" if query.get("range") else "days"  # `days` was its name in addresses of earlier releases
    range_ = query.get(name) or DEFAULT_RANGE
    if range_ not in RANGES:
        raise _unknown(name, range_, RANGES)
    period = whole_period(state, today) if range_ == ALL else default_period(state, today, int(range_))
    return range_, period, None


def _read_dates(first: str, last: str, state: SeriesState, today: date) -> tuple[Period, date]:
    """The days that are read, and the last one of the axis, which may lie ahead."""
    from_on, to_on = (
        _read_day(text, name, state, today) if text else None for text, name in ((first, "from"), (last, "to"))
    )
    period = check_period(from_on, to_on, state=state, today=today)
    if (period.to_on - period.from_on).days < LEAST_RANGE_DAYS:
        message = _("Enter two dates at least %(n)s days apart, such as %(day)s and %(today)s.") % {
            "n": LEAST_RANGE_DAYS,
            "day": _example(today - timedelta(days=25)),
            "today": _example(today),
        }
        raise Invalid(message, code="period", fields=[FieldProblem("from" if first else "to", message)])
    until = min(period.to_on, today + timedelta(days=MOST_DAYS_AHEAD))
    through = state.through_on or today
    return Period(period.from_on, max(min(period.to_on, through), period.from_on)), until


def _read_day(text: str, name: str, state: SeriesState, today: date) -> date:
    """Read 1 Nov 2026, 1 November, and 2026-11-01. Without a year, the last such day."""
    words = re.sub(r"\s+", " ", text.replace(",", " ")).strip()
    for form in ("%Y-%m-%d", *formats.get_format("DATE_INPUT_FORMATS")):
        try:
            return datetime.strptime(words, form).date()  # noqa: DTZ007 - a day has no zone
        except ValueError:
            continue
    for form in ("%d %b %Y", "%d %B %Y"):
        try:
            day = datetime.strptime(f"{words} {today.year}", form).date()  # noqa: DTZ007 - a day has no zone
        except ValueError:
            continue
        return day if day <= today else _a_year_before(day)
    message = _("“%(text)s” is not a date: write it like %(day)s. %(there)s") % {
        "text": text[:40],
        "day": _example(today),
        "there": available_days_text(state),
    }
    raise Invalid(message, code="period", fields=[FieldProblem(name, message)])


def _a_year_before(day: date) -> date:
    try:
        return day.replace(year=day.year - 1)
    except ValueError:  # 29 February
        return day.replace(year=day.year - 1, day=28)


def _example(day: date) -> str:
    return formats.date_format(day, "j M Y")


def _read_zoom(text: str) -> tuple[date, date] | None:
    """Read two days such as 2026-11-12..2026-11-22."""
    if not text:
        return None
    try:
        first, last = (date.fromisoformat(part) for part in text.split("..", 1))
    except ValueError:
        message = _("“%(text)s” is not a zoom: write it like 2026-11-12..2026-11-22.") % {"text": text[:40]}
        raise Invalid(message, fields=[FieldProblem("zoom", message)]) from None
    return (first, last) if (last - first).days >= LEAST_RANGE_DAYS else None


def _read_uid(query: QueryDict, name: str) -> UUID | None:
    text = query.get(name, "")
    try:
        return UUID(text) if text else None
    except ValueError:
        message = _("“%(text)s” is not an entry of this policy.") % {"text": text[:40]}
        raise Invalid(message, fields=[FieldProblem(name, message)]) from None


def _unknown(where: str, text: str, known: tuple[str, ...]) -> Invalid:
    message = _("“%(text)s” is not one of %(known)s.") % {"text": text[:40], "known": ", ".join(known)}
    return Invalid(message, fields=[FieldProblem(where, message)])
