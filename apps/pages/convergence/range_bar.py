"""The bar with the time range of the whole page: presets, two dates, zoom, the period before, and the unit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from django.conf import settings
from django.http import QueryDict
from django.utils import formats
from django.utils.translation import gettext as _

from apps.pages.convergence.figures.course import GroupNumbers, axis_of
from apps.pages.convergence.page_query import ALL, HOUR, RANGES, UNITS, PageQuery, without_range
from apps.series.convergence.query import OFS, VIEWS, WINDOWED
from apps.web.figures.figure import with_changes
from apps.web.figures.scales import day_text


@dataclass(frozen=True, slots=True)
class Choice:
    key: str
    label: str
    query: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class RangeBar:
    """All choices with their addresses. first, last: texts of the fields for two dates; error_at: the one in error.

    rest: the other parameters of the address, for forms. period: what is shown, in words.
    """

    ranges: list[Choice]
    is_custom: bool
    first: str
    last: str
    error_at: str
    zone: str
    rest: list[tuple[str, str]]
    rest_without_compare: list[tuple[str, str]]
    rest_of_level: list[tuple[str, str]]
    rest_of_window: list[tuple[str, str]]
    period: str
    reset_query: str
    is_zoomed: bool
    compare: Choice | None
    units: list[Choice]
    views: list[Choice]
    wholes: list[Choice]
    hours: Choice
    window_days: int | None
    is_usual: bool


def range_bar(numbers: GroupNumbers, query: QueryDict, base: str, *, problem_at: str) -> RangeBar:
    """base: address of the page. problem_at: the parameter that couldn't be read, if any."""
    asked, axis = numbers.query, axis_of(numbers)
    plain = without_range(query)
    has_problem = problem_at in ("from", "to")
    is_custom = not asked.range_ or has_problem
    return RangeBar(
        ranges=[
            Choice(
                key,
                _("1 y") if key == "365" else _("%(n)s d") % {"n": key},
                with_changes(plain, range=key),
                asked.range_ == key and not asked.by_hour and not has_problem,
            )
            for key in RANGES
            if key != ALL
        ],
        is_custom=is_custom and not asked.by_hour,
        first=query.get("from", "") if has_problem else _date(asked.period.from_on),
        last=query.get("to", "") if has_problem else _date(asked.until or numbers_until(numbers)),
        error_at=problem_at if has_problem else "",
        zone=settings.TIME_ZONE,
        rest=[(name, value) for name, values in plain.lists() for value in values],
        rest_without_compare=_rest(query, "compare"),
        rest_of_level=_rest(query, "level", "entry", "zoom", "section", "page", "more"),
        rest_of_window=_rest(query, "window"),
        period=period_text(numbers),
        reset_query=with_changes(query, zoom=None),
        is_zoomed=axis is not None and axis.is_zoomed,
        compare=None
        if asked.by_hour
        else Choice(
            "compare",
            _compare_text(asked),
            with_changes(query, compare=None if asked.is_compared else "1"),
            asked.is_compared,
        ),
        units=[
            Choice(
                f"unit-{unit}", label, with_changes(query, unit=None if unit == UNITS[0] else unit), asked.unit == unit
            )
            for unit, label in zip(UNITS, (_("Share"), _("Points from target")), strict=True)
        ],
        views=[
            Choice(f"view-{view}", label, with_changes(query, view=view, window=None), asked.method.view == view)
            for view, label in zip(VIEWS, (_("Decayed"), _("Windowed"), _("Raw")), strict=True)
            if not (asked.by_hour and view == WINDOWED)
        ],
        wholes=[
            Choice(f"of-{of}", label, with_changes(query, of=of), asked.method.of == of)
            for of, label in zip(OFS, (_("of parent"), _("of total")), strict=True)
        ],
        hours=Choice("step-hour", _("7 d by hour"), with_changes(plain, step=HOUR), asked.by_hour),
        window_days=asked.method.window_days if asked.method.view == WINDOWED else None,
        is_usual=asked.method.view == VIEWS[0] and asked.method.of == OFS[0] and not asked.by_hour,
    )


def numbers_until(numbers: GroupNumbers) -> date:
    convergence = numbers.convergence
    return convergence.on[-1] if convergence.on else convergence.period.to_on


def _date(day: date) -> str:
    return formats.date_format(day, "j M Y")


def _rest(query: QueryDict, *without: str) -> list[tuple[str, str]]:
    return [(name, value) for name, values in query.lists() if name not in without for value in values]


def _compare_text(asked: PageQuery) -> str:
    n_days = asked.period.n_days
    if asked.range_ == "365":
        return _("Compare with the year before")
    return _("Compare with the %(n)s days before") % {"n": n_days}


def period_text(numbers: GroupNumbers) -> str:
    axis = axis_of(numbers)
    if axis is None:
        return ""
    first, last = (date.fromordinal(int(at)) for at in (axis.first, axis.last))
    if not axis.is_zoomed and numbers.query.until is None and axis.now is not None:
        return _("%(first)s to now") % {"first": _short(first, last)}
    return _("%(first)s to %(last)s") % {"first": _short(first, last), "last": _date(last)}


def _short(day: date, other: date) -> str:
    return day_text(day) if day.year == other.year else _date(day)
