"""Contexts of the calendar month, of the plan of allocations over months, and of the list of dates that end soon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.contrib.allocations.pages import presenters as allocation_presenters
from apps.contrib.allocations.pages.forms import (
    day_text,
    month_from_query,
    month_key,
    today,
    typed_amount,
    uid_from_query,
    zone,
)
from apps.contrib.allocations.pages.plan_strip import Span, draw_plan, first_days, months_around
from apps.contrib.allocations.periods import DAY, FIRST_DAY, LAST_DAY, Period
from apps.contrib.allocations.services import period_of, successor_of
from apps.contrib.allocations.summary import SOON_DAYS, Event
from apps.contrib.allocations.usage import Upcoming, get_calendar, get_ending_soon
from apps.core import clock
from apps.core.typed_numbers import read_whole
from apps.policies.models import Allocation
from apps.policies.tree.terms import Dates
from apps.web.shell import presentation
from apps.web.shell.requests import actor_of

_MOST_PLANNED = 12
_MOST_LISTED = 50


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


def soon_context(request: HttpRequest, policy: str, of: UUID | None = None) -> dict[str, Any]:
    wanted = read_whole(request.GET.get("soon", ""), 3)
    days = wanted if wanted in SOON_DAYS else 30
    of = of or uid_from_query(request.GET.get("of", ""))
    upcoming = get_ending_soon(policy_slug=policy, zone=zone(), days=days, actor=actor_of(request), of=of)
    lines = [draw_event(upcoming, event) for event in upcoming.events]
    return {
        "policy": policy,
        "soon_of": of or "",
        "soon": lines[:_MOST_LISTED],
        "soon_days": days,
        "n_more_soon": max(len(lines) - _MOST_LISTED, 0),
        "soon_choices": SOON_DAYS,
        "n_alerts": sum(line.is_alert for line in lines),
    }


def draw_event(upcoming: Upcoming, event: Event) -> EventLine:
    url = allocation_presenters.tab_url(upcoming.policy_slug, event.uid, event.name)
    when = allocation_presenters.when_text(event.on, upcoming.now, upcoming.today)
    is_over = event.is_end and event.on < upcoming.today
    text = _words(event, upcoming.now)
    icon = "clock" if is_over else "calendar"
    renew = ""
    if (
        event.kind == "allocation_ends"
        and event.allocation
        and not event.is_covered
        and upcoming.may_allocate(event.uid)
    ):
        following = allocation_presenters.renewal(period_of(event.allocation))
        amount = typed_amount(event.allocation.core_h)
        renew = f"{url}?core_h={amount}&starts={following.starts_on}&ends={following.ends_on}#allocate"
    return EventLine(
        event,
        url,
        event.path,
        text,
        when,
        icon,
        is_alert=is_over or (event.is_end and not event.is_covered),
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
    amount = {"n": allocation_presenters.core_h(allocation.core_h)}
    if event.kind == "allocation_begins":
        return _("Allocation of %(n)s core-hours starts.") % amount
    if event.successor is not None:
        following = {**amount, "more": allocation_presenters.core_h(event.successor.core_h)}
        following["day"] = day_text(event.successor.starts_on, now)
        return _("Allocation of %(n)s core-hours ends; %(more)s core-hours follow on %(day)s.") % following
    return _("Allocation of %(n)s core-hours ends; no renewal is planned.") % amount


def end_text(shares: float | None, dates: Dates) -> str:
    """What happens to shares after their last day."""
    own = presentation.shares(shares)
    if dates.at_end == "keep":
        return _("Its %(n)s shares are kept and flagged as expired.") % {"n": own}
    if dates.at_end == "archive":
        return _("It is archived with everything below it on the next day.")
    after = presentation.shares(0.0 if dates.at_end == "zero" else float(dates.at_end))
    return _("Its %(n)s shares become %(after)s on the next day.") % {"n": own, "after": after}


def calendar_context(request: HttpRequest, policy: str) -> dict[str, Any]:
    month = month_from_query(request, clock.now())
    calendar = get_calendar(policy_slug=policy, period=month, zone=zone(), actor=actor_of(request))
    lines = [draw_event(calendar, event) for event in calendar.events]
    days: dict[date, list[EventLine]] = {}
    for line in lines:
        days.setdefault(line.event.on, []).append(line)
    return {
        "policy": policy,
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


def plan_context(request: HttpRequest, policy: str) -> dict[str, Any]:
    """Allocations over fifteen months; if there are very many, those that end first."""
    now_on = today(clock.now())
    shown = months_around(now_on)
    calendar = get_calendar(policy_slug=policy, period=shown, zone=zone(), actor=actor_of(request))
    by_entry: dict[UUID, list[Allocation]] = {}
    for each in calendar.allocations:
        if period_of(each).overlap(shown) is not None:
            by_entry.setdefault(each.entry_uid, []).append(each)
    chosen = sorted(by_entry, key=lambda uid: (max(each.ends_on for each in by_entry[uid]), str(uid)))[:_MOST_PLANNED]
    lines = [(calendar.names[uid], _spans(by_entry[uid], calendar.now)) for uid in chosen]
    plan = draw_plan(lines, now_on, [(day, allocation_presenters.month_name(day)) for day in first_days(now_on)])
    label = _("Allocated core-hours from %(first)s to %(last)s, by entry; table and calendar list them all.")
    days = {"first": day_text(shown.starts_on, calendar.now), "last": day_text(shown.ends_on, calendar.now)}
    return {"plan": plan if lines else None, "plan_label": label % days, "n_not_planned": len(by_entry) - len(chosen)}


def _spans(allocations: Sequence[Allocation], now: datetime) -> list[Span]:
    return [
        Span(
            period_of(each),
            _("%(n)s core-h, until %(day)s")
            % {"n": allocation_presenters.core_h(each.core_h), "day": day_text(each.ends_on, now)},
            successor_of(each, allocations) is not None,
        )
        for each in allocations
    ]
