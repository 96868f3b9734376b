"""What the query of a page asks of the figures of convergence: period, way to count, picks, unit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal, cast

from django.http import QueryDict
from django.utils.translation import gettext as _

from apps.analytics.convergence.query import (
    DAY_S,
    DEFAULT_DAYS,
    LAST_DAYS,
    Period,
    ShareMethod,
    default_period,
    read_period,
    read_share_method,
    reject_windowed,
    whole_period,
)
from apps.analytics.convergence.records import ChildrenQuery, SelectionQuery
from apps.analytics.series.daily_series import SeriesState
from apps.core.errors import FieldProblem, Invalid
from apps.figures.traces import MOST_SERIES

ALL = "all"
HOUR = "hour"  # of `step`: the last seven days by the hour
TODAY = "today"  # of `measure`: all days against the head revision
RANGES = (*map(str, LAST_DAYS), ALL)
Unit = Literal["points", "ratio", "percent"]
UNITS: tuple[Unit, ...] = ("points", "ratio", "percent")
NAMES = ("range", "show", "pick", "slots", "hide")  # of the picture of picks; the others are of the whole page
_MOST_TEXT = 8_400  # of a path


@dataclass(frozen=True, slots=True)
class FocusAsked:
    """picks: uids or paths, in the order in which they were picked; none: the usual ones. slots: the series number of
    each, 0..7. hidden: picks that are not drawn. range_: a preset, or "" for the period of the page."""

    period: Period
    whole: Period
    method: ShareMethod
    range_: str
    unit: Unit
    picks: tuple[str, ...]
    slots: tuple[int, ...]
    hidden: frozenset[str]
    by_hour: bool = False

    @property
    def numbers(self) -> SelectionQuery:
        return SelectionQuery(
            picks=self.picks, period=self.period, whole=self.whole, method=self.method, by_hour=self.by_hour
        )


def read_children(query: QueryDict, state: SeriesState, today: date, *, itself: bool = False) -> ChildrenQuery:
    """The children of the entry, or it alone, over the period of the page. Raises Invalid as `read_focus`."""
    by_hour = is_by_hour(query, state)
    period, _preset = read_period_asked(query, state, today)
    return ChildrenQuery(
        method=read_share_method_of(query),
        period=period,
        by_hour=by_hour,
        itself=itself,
        against_today=query.get("measure") == TODAY and not by_hour,
    )


def read_focus(query: QueryDict, state: SeriesState, today: date) -> FocusAsked:
    """Raises Invalid, with the name in the address, for what can't be drawn."""
    method = read_share_method_of(query)
    by_hour = is_by_hour(query, state)
    if by_hour:
        reject_windowed(method)
    range_ = query.get("range", "")
    if range_ and range_ not in RANGES:
        raise _refused("range", _("“%(text)s” is not one of %(known)s."), range_, RANGES)
    period = read_period_asked(query if not range_ else QueryDict(f"days={range_}"), state, today)[0]
    unit = query.get("show", UNITS[0])
    if unit not in UNITS:
        raise _refused("show", _("“%(text)s” is not one of %(known)s."), unit, UNITS)
    picks = tuple(dict.fromkeys(text[:_MOST_TEXT] for text in query.getlist("pick") if text.strip()))
    every = whole_period(state, today)
    whole = Period(min(every.from_on, period.from_on), max(every.to_on, period.to_on))
    slots = _slots(query.get("slots", ""), len(picks))
    hidden = frozenset(query.getlist("hide"))
    return FocusAsked(
        period,
        whole if (whole.to_on - whole.from_on).days < _MOST_DAYS else period,
        method,
        range_,
        cast("Unit", unit),
        picks,
        slots,
        hidden,
        by_hour,
    )


_MOST_DAYS = 3_660


def is_by_hour(query: QueryDict, state: SeriesState) -> bool:
    """By choice, and while no day is over."""
    return query.get("step") == HOUR or (state.through_on is None and state.hours_through_at is not None)


def read_share_method_of(query: QueryDict) -> ShareMethod:
    window = query.get("window", "")
    try:
        days = float(window) if window else None
    except ValueError:
        message = _("Invalid number of days “%(text)s”.") % {"text": window[:40]}
        raise Invalid(message, fields=[FieldProblem("window", message)]) from None
    return read_share_method(query.get("view", ""), query.get("of", ""), None if days is None else days * DAY_S)


def read_period_asked(query: QueryDict, state: SeriesState, today: date) -> tuple[Period, str]:
    """The period, and the preset that was chosen, or "" for two days."""
    first, last, days = query.get("from", ""), query.get("to", ""), query.get("days", "")
    if first or last:
        return read_period(first, last, state=state, today=today), ""
    if days == ALL:
        return whole_period(state, today), ALL
    if days in {"", *RANGES}:
        return default_period(state, today, int(days or DEFAULT_DAYS)), days or str(DEFAULT_DAYS)
    raise _refused("days", _("Unknown period “%(text)s”; choose from %(known)s, or enter two dates."), days, RANGES)


def _slots(text: str, n: int) -> tuple[int, ...]:
    """One digit 1..8 a pick; each other one gets the lowest that is free, so that no series ever changes its colour."""
    stated = [int(one) - 1 if one in "12345678" else -1 for one in text[:n]]
    taken: list[int] = []
    for slot in stated:
        taken.append(slot if slot not in taken else -1)
    taken += [-1] * (n - len(taken))
    free = iter([slot for slot in range(max(n, MOST_SERIES)) if slot not in taken])
    return tuple(next(free) if slot < 0 else slot for slot in taken)


def _refused(where: str, message: str, text: str, known: tuple[str, ...]) -> Invalid:
    said = message % {"text": text[:40], "known": ", ".join(known)}
    return Invalid(said, fields=[FieldProblem(where, said)])
