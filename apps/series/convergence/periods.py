"""The period of a convergence query: read, checked, and what is available."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from django.conf import settings
from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid, Malformed
from apps.core.periods import DEFAULT_DAYS
from apps.series.daily_series import SeriesState

DAY = timedelta(days=1)
MOST_CONVERGENCE_DAYS = 3_660


@dataclass(frozen=True, slots=True)
class Period:
    """A range of days, both ends included."""

    from_on: date
    to_on: date

    @property
    def n_days(self) -> int:
        return (self.to_on - self.from_on).days + 1

    def starting_earlier(self, n_days: int) -> Period:
        """Return the period extended by `n_days` at the start, limited by the first day of the calendar."""
        earliest = self.from_on.toordinal() - n_days
        return Period(date.fromordinal(max(earliest, 1)), self.to_on)


def today_of(now: datetime) -> date:
    """Return the current date in the site's time zone."""
    return now.astimezone(ZoneInfo(settings.TIME_ZONE)).date()


def default_period(state: SeriesState, today: date, n_days: int = DEFAULT_DAYS) -> Period:
    """Return the last `n_days` built days."""
    to_on = state.through_on or today
    return Period(to_on - (n_days - 1) * DAY, to_on)


def whole_period(state: SeriesState, today: date) -> Period:
    """Return the whole built series, limited to the last MOST_CONVERGENCE_DAYS days."""
    to_on = state.through_on or today
    earliest = to_on - (MOST_CONVERGENCE_DAYS - 1) * DAY
    return Period(max(state.first_on or to_on, earliest), to_on)


def read_period(from_text: str, to_text: str, *, state: SeriesState, today: date) -> Period:
    """Parse the two dates of a period. A missing end date is the end of the series."""
    to_on = _day(to_text, "to", state) if to_text else None
    from_on = _day(from_text, "from", state) if from_text else None
    return check_period(from_on, to_on, state=state, today=today)


def check_period(from_on: date | None, to_on: date | None, *, state: SeriesState, today: date) -> Period:
    """Return the period between two dates, with defaults. Raises Invalid if it is reversed or too long."""
    if from_on is None and to_on is None:
        return default_period(state, today)
    if to_on is None:
        to_on = max(state.through_on or today, from_on or today)
    if from_on is None:
        from_on = date.fromordinal(max(to_on.toordinal() - (DEFAULT_DAYS - 1), 1))
    if to_on < from_on:
        values = {"first": from_on.isoformat(), "last": to_on.isoformat(), "there": available_days_text(state)}
        message = _("The period ends on %(last)s, before it starts on %(first)s: swap them. %(there)s")
        raise _period_error("to", message % values)
    if (to_on - from_on).days >= MOST_CONVERGENCE_DAYS:
        values = {
            "n": f"{(to_on - from_on).days + 1:,}",
            "most": f"{MOST_CONVERGENCE_DAYS:,}",
            "there": available_days_text(state),
        }
        message = _("That is %(n)s days; the limit is %(most)s (ten years). %(there)s")
        raise _period_error("from", message % values)
    return Period(from_on, to_on)


def available_days_text(state: SeriesState) -> str:
    """Return a sentence with the range of built days."""
    if state.first_on is None or state.through_on is None:
        return _("No daily data yet.")
    values = {"first": state.first_on.isoformat(), "last": state.through_on.isoformat()}
    return _("Data available from %(first)s to %(last)s.") % values


def _day(text: str, where: str, state: SeriesState) -> date:
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        values = {"text": text.strip()[:40], "there": available_days_text(state)}
        message = _("“%(text)s” is not a date: write it like 2026-03-31. %(there)s") % values
        raise Malformed(message, code="period", fields=[FieldProblem(where, message)]) from None


def _period_error(where: str, message: str) -> Invalid:
    return Invalid(message, code="period", fields=[FieldProblem(where, message)])
