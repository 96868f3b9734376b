"""Which days are asked for, and what is possible where they can't be."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from django.conf import settings
from django.utils.translation import gettext as _

from apps.analytics.series.storage.columns import SeriesState
from apps.core.errors import FieldProblem, Invalid, Malformed

DAY = timedelta(days=1)
MOST_DAYS = 3_660
USUAL_DAYS = 30
LAST_DAYS = (7, 30, 90, 365)
DAILY_UP_TO = 400  # longer periods are drawn and listed by weeks


@dataclass(frozen=True, slots=True)
class Period:
    """Both days belong to it."""

    from_on: date
    to_on: date

    @property
    def n_days(self) -> int:
        return (self.to_on - self.from_on).days + 1

    def starting_earlier(self, n_days: int) -> Period:
        """With so many days before it, as far as the calendar goes."""
        earliest = self.from_on.toordinal() - n_days
        return Period(date.fromordinal(max(earliest, 1)), self.to_on)


def today_of(now: datetime) -> date:
    """The day it is at the site."""
    return now.astimezone(ZoneInfo(settings.TIME_ZONE)).date()


def usual_period(state: SeriesState, today: date, n_days: int = USUAL_DAYS) -> Period:
    """The last days there are."""
    to_on = state.through_on or today
    return Period(to_on - (n_days - 1) * DAY, to_on)


def whole_period(state: SeriesState, today: date) -> Period:
    """The whole series, up to the longest period of one answer."""
    to_on = state.through_on or today
    earliest = to_on - (MOST_DAYS - 1) * DAY
    return Period(max(state.first_on or to_on, earliest), to_on)


def read_period(from_text: str, to_text: str, *, state: SeriesState, today: date) -> Period:
    """The period between two typed days; a missing one is the end of the series."""
    to_on = _day(to_text, "to", state) if to_text else None
    from_on = _day(from_text, "from", state) if from_text else None
    return check_period(from_on, to_on, state=state, today=today)


def check_period(from_on: date | None, to_on: date | None, *, state: SeriesState, today: date) -> Period:
    if from_on is None and to_on is None:
        return usual_period(state, today)
    if to_on is None:
        to_on = max(state.through_on or today, from_on or today)
    if from_on is None:
        from_on = date.fromordinal(max(to_on.toordinal() - (USUAL_DAYS - 1), 1))
    if to_on < from_on:
        said = {"first": from_on.isoformat(), "last": to_on.isoformat(), "there": there_are(state)}
        message = _("The period ends on %(last)s, before it starts on %(first)s: swap them. %(there)s")
        raise _refused("to", message % said)
    if (to_on - from_on).days >= MOST_DAYS:
        said = {"n": f"{(to_on - from_on).days + 1:,}", "most": f"{MOST_DAYS:,}", "there": there_are(state)}
        message = _("That is %(n)s days; the limit is %(most)s (ten years). %(there)s")
        raise _refused("from", message % said)
    return Period(from_on, to_on)


def there_are(state: SeriesState) -> str:
    """Which days could be asked for."""
    if state.first_on is None or state.through_on is None:
        return _("No daily data yet.")
    said = {"first": state.first_on.isoformat(), "last": state.through_on.isoformat()}
    return _("Data available from %(first)s to %(last)s.") % said


def _day(text: str, where: str, state: SeriesState) -> date:
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        said = {"text": text.strip()[:40], "there": there_are(state)}
        message = _("“%(text)s” is not a date: write it like 2026-03-31. %(there)s") % said
        raise Malformed(message, code="period", fields=[FieldProblem(where, message)]) from None


def _refused(where: str, message: str) -> Invalid:
    return Invalid(message, code="period", fields=[FieldProblem(where, message)])
