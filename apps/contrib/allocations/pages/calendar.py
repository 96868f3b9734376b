"""Contexts of the calendar month, and of the list of dates that end soon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.contrib.allocations.loaded import Loaded
from apps.contrib.allocations.pages import presenters as allocation_presenters
from apps.contrib.allocations.pages.forms import (
    day_text,
    month_from_query,
    month_key,
    typed_amount,
    uid_from_query,
    zone,
)
from apps.contrib.allocations.periods import DAY, FIRST_DAY, LAST_DAY, Period
from apps.contrib.allocations.services import period_of
from apps.contrib.allocations.summary import SOON_DAYS, Event
from apps.contrib.allocations.upcoming import Upcoming, calendar_of, ending_soon_of
from apps.core import clock
from apps.core.typed_numbers import read_whole
from apps.policies.models import Allocation
from apps.policies.tree.terms import Dates
from apps.web.shell import presentation

_MOST_LISTED_TERMS = 50


@dataclass(frozen=True, slots=True)
class EventLine:
    """Start or end of an allocation or of an entry's shares, in words."""

    event: Event
    url: str
    title: str
    text: str
    when: str
    icon: str
    is_alert: bool
    renew_url: str = ""


@dataclass(frozen=True, slots=True)
class CalendarDay:
    """One day of the calendar. is_here: whether it is in the shown month."""

    day: date
    is_here: bool
    is_today: bool
    events: Sequence[EventLine] = field(default_factory=tuple)

    @property
    def anchor(self) -> str:
        return f"d-{self.day.isoformat()}"

    @property
    def label(self) -> str:
        return formats.date_format(self.day, "l j F Y")


def soon_context(request: HttpRequest, loaded: Loaded, of: UUID | None = None) -> dict[str, Any]:
    """What ends soon or is over, the first of it in words."""
    wanted = read_whole(request.GET.get("soon", ""), 3)
    days = wanted if wanted in SOON_DAYS else 30
    of = of or uid_from_query(request.GET.get("of", ""))
    upcoming = ending_soon_of(loaded, zone=zone(), days=days, of=of)
    events = upcoming.events
    return {
        "policy": upcoming.policy_slug,
        "soon_of": of or "",
        "soon": [draw_event(upcoming, event) for event in events[:_MOST_LISTED_TERMS]],
        "soon_days": days,
        "n_more_soon": max(len(events) - _MOST_LISTED_TERMS, 0),
        "soon_choices": SOON_DAYS,
        "n_alerts": sum(_is_alert(upcoming, event) for event in events),
    }


def _is_over(upcoming: Upcoming, event: Event) -> bool:
    return event.is_end and event.on < upcoming.today


def _is_alert(upcoming: Upcoming, event: Event) -> bool:
    return _is_over(upcoming, event) or (event.is_end and not event.is_covered)


def draw_event(upcoming: Upcoming, event: Event) -> EventLine:
    url = allocation_presenters.tab_url(upcoming.policy_slug, event.uid, event.name)
    when = allocation_presenters.when_text(event.on, upcoming.now, upcoming.today)
    text = _words(event, upcoming.now)
    icon = "clock" if _is_over(upcoming, event) else "calendar"
    renew = ""
    if (
        event.kind == "allocation_ends"
        and event.allocation
        and not event.is_covered
        and upcoming.may_allocate(event.uid)
    ):
        following = allocation_presenters.renewal(period_of(event.allocation))
        amount = typed_amount(event.allocation.amount)
        unit = urlencode({"unit": event.allocation.unit})
        renew = f"{url}?{unit}&amount={amount}&starts={following.starts_on}&ends={following.ends_on}#allocate"
    return EventLine(
        event,
        url,
        event.path,
        text,
        when,
        icon,
        is_alert=_is_alert(upcoming, event),
        renew_url=renew,
    )


def _words(event: Event, now: datetime) -> str:
    if event.allocation is not None:
        return _allocation_text(event, event.allocation, now)
    assert event.dates is not None  # noqa: S101 - an event has an allocation or dates
    if event.kind == "shares_begin":
        if event.dates.shares is None:
            return _("Its shares apply from this day.")
        return _("Its shares become %(n)s.") % {"n": presentation.shares(event.dates.shares)}
    return end_text(event.shares, event.dates)


def _allocation_text(event: Event, allocation: Allocation, now: datetime) -> str:
    amount = {"n": allocation_presenters.quantity(allocation.amount, allocation.unit)}
    if event.kind == "allocation_begins":
        return _("Allocation of %(n)s starts.") % amount
    if event.successor is not None:
        following = {**amount, "more": allocation_presenters.quantity(event.successor.amount, event.successor.unit)}
        following["day"] = day_text(event.successor.starts_on, now)
        return _("Allocation of %(n)s ends; %(more)s follow on %(day)s.") % following
    return _("Allocation of %(n)s ends; no renewal is planned.") % amount


def end_text(shares: float | None, dates: Dates) -> str:
    """What happens to shares after their last day."""
    own = presentation.shares(shares)
    if dates.at_end == "keep":
        return _("Its %(n)s shares are kept and flagged as expired.") % {"n": own}
    if dates.at_end == "archive":
        return _("It is archived with everything below it on the next day.")
    after = presentation.shares(0.0 if dates.at_end == "zero" else float(dates.at_end))
    return _("Its %(n)s shares become %(after)s on the next day.") % {"n": own, "after": after}


def calendar_context(request: HttpRequest, loaded: Loaded) -> dict[str, Any]:
    month = month_from_query(request, clock.now())
    calendar = calendar_of(loaded, period=month, zone=zone())
    lines = [draw_event(calendar, event) for event in calendar.events]
    days: dict[date, list[EventLine]] = {}
    for line in lines:
        days.setdefault(line.event.on, []).append(line)
    return {
        "policy": calendar.policy_slug,
        "policy_name": calendar.policy_name,
        "upcoming": calendar,
        "agenda": [(CalendarDay(day, True, False), lines) for day, lines in sorted(days.items())],
        "n_events": ngettext("%(n)s event", "%(n)s events", len(lines)) % {"n": len(lines)},
        **month_context(month, calendar.today, days),
    }


def month_context(month: Period, now_on: date, days: dict[date, list[EventLine]]) -> dict[str, Any]:
    """A month as weeks from Monday to Sunday."""
    first = month.starts_on - month.starts_on.weekday() * DAY
    n_weeks = ((month.ends_on - first).days // 7) + 1
    weeks = []
    for week in range(n_weeks):
        row = []
        for n in range(7):
            day = first + (7 * week + n) * DAY
            row.append(CalendarDay(day, day in month, day == now_on, tuple(days.get(day, ()))))
        weeks.append(row)
    before, after = month.starts_on - DAY, month.ends_on + DAY
    return {
        "weeks": weeks,
        "month_title": formats.date_format(month.starts_on, "F Y"),
        "weekdays": [
            (formats.date_format(first + n * DAY, "D"), formats.date_format(first + n * DAY, "l")) for n in range(7)
        ],
        "month": month_key(month.starts_on),
        "month_before": month_key(before) if before >= FIRST_DAY else "",
        "month_after": month_key(after) if after <= LAST_DAY else "",
        "this_month": month_key(now_on),
    }
