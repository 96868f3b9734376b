"""Options of the convergence figures, parsed from the page's query: period, kind of share, picks, unit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal, cast

from django.http import QueryDict
from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid
from apps.series.convergence.query import (
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
from apps.series.convergence.records import ChildrenQuery, SelectionQuery
from apps.series.daily_series import SeriesState
from apps.web.figures.traces import MOST_SERIES

ALL = "all"
HOUR = "hour"  # value of `step`: the last seven days by the hour
TODAY = "today"  # value of `measure`: compare all days with the head revision
RANGES = (*map(str, LAST_DAYS), ALL)
Unit = Literal["points", "ratio", "percent"]
UNITS: tuple[Unit, ...] = ("points", "ratio", "percent")
NAMES = ("range", "show", "pick", "slots", "hide")  # parameters of the focus figure only
_MOST_TEXT = 8_400  # characters of a path


@dataclass(frozen=True, slots=True)
class FocusOptions:
    """picks: uids or paths in the order picked; empty: the default ones. slots: series number of each, 0..7. hidden:
    picks that are not drawn. range_: a preset, or "" for the period of the page.
    """

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


def read_children(query: QueryDict, state: SeriesState, today: date, *, itself: bool) -> ChildrenQuery:
    """Parse the query for the children of an entry, or the entry alone. Raises Invalid as `read_focus`."""
    by_hour = is_by_hour(query, state)
    period, _preset = read_page_period(query, state, today)
    return ChildrenQuery(
        method=read_share_method_of(query),
        period=period,
        by_hour=by_hour,
        itself=itself,
        against_today=query.get("measure") == TODAY and not by_hour,
    )


def read_focus(query: QueryDict, state: SeriesState, today: date) -> FocusOptions:
    """Parse the focus figure. Raises Invalid, with the parameter's name, for options that can't be drawn."""
    method = read_share_method_of(query)
    by_hour = is_by_hour(query, state)
    if by_hour:
        reject_windowed(method)
    range_ = query.get("range", "")
    if range_ and range_ not in RANGES:
        raise _invalid("range", _("“%(text)s” is not one of %(known)s."), range_, RANGES)
    period = read_page_period(query if not range_ else QueryDict(f"days={range_}"), state, today)[0]
    unit = query.get("show", UNITS[0])
    if unit not in UNITS:
        raise _invalid("show", _("“%(text)s” is not one of %(known)s."), unit, UNITS)
    picks = tuple(dict.fromkeys(text[:_MOST_TEXT] for text in query.getlist("pick") if text.strip()))
    every = whole_period(state, today)
    whole = Period(min(every.from_on, period.from_on), max(every.to_on, period.to_on))
    slots = _slots(query.get("slots", ""), len(picks))
    hidden = frozenset(query.getlist("hide"))
    return FocusOptions(
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


def read_page_period(query: QueryDict, state: SeriesState, today: date) -> tuple[Period, str]:
    """Return the period and the chosen preset, "" for a period given by dates."""
    first, last, days = query.get("from", ""), query.get("to", ""), query.get("days", "")
    if first or last:
        return read_period(first, last, state=state, today=today), ""
    if days == ALL:
        return whole_period(state, today), ALL
    if days in {"", *RANGES}:
        return default_period(state, today, int(days or DEFAULT_DAYS)), days or str(DEFAULT_DAYS)
    raise _invalid("days", _("Unknown period “%(text)s”; choose from %(known)s, or enter two dates."), days, RANGES)


def _slots(text: str, n: int) -> tuple[int, ...]:
    """Parse one digit 1..8 per pick. Other picks get the lowest free slot, so that a series never changes
    its colour.
    """
    wanted = [int(digit) - 1 if digit in "12345678" else -1 for digit in text[:n]]
    slots: list[int] = []
    for slot in wanted:
        slots.append(slot if slot not in slots else -1)
    slots += [-1] * (n - len(slots))
    free = iter([slot for slot in range(max(n, MOST_SERIES)) if slot not in slots])
    return tuple(next(free) if slot < 0 else slot for slot in slots)


def _invalid(where: str, message: str, text: str, known: tuple[str, ...]) -> Invalid:
    message %= {"text": text[:40], "known": ", ".join(known)}
    return Invalid(message, fields=[FieldProblem(where, message)])
