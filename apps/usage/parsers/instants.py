"""Parse times and durations as schedulers write them.

Times are seconds since 1970, local times without a zone, or ISO 8601.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from apps.core.local_time import NoSuchTime, add_leap_second, instant_of, split_leap_second
from apps.usage.parsers.base import (
    LAST_US,
    MOST_JOB_S,
)
from apps.usage.parsers.field_values import BadRecord, amount, number, shown

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Stamps from 1e15 on count microseconds since 2001, those from 1e11 on milliseconds: seconds would be in the year 5138.
_UNITS_US = ((10**15, 1), (10**11, 1_000))
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?", re.ASCII)
_DURATION = re.compile(
    r"(-)?P(?:(\d{1,9})Y)?(?:(\d{1,9})M)?(?:(\d{1,9})W)?(?:(\d{1,9})D)?"
    r"(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,12}(?:\.\d{1,9})?)S)?)?",
    re.ASCII,
)
_CLOCK = re.compile(r"(-)?(?:(\d{1,6}):)?(\d{1,9}):(\d\d)(?:\.\d{1,6})?", re.ASCII)


def epoch(name: str, text: str, *, finer: bool = False) -> datetime | None:
    """Parse seconds since 1970, exactly to the microsecond; None for 0 and below ("never").

    finer: a number too large for seconds is in milliseconds or microseconds.
    """
    value = number(name, text)
    if value <= 0:
        return None
    unit_us = next((unit for least, unit in _UNITS_US if finer and value >= least), 1_000_000)
    us = int(text) * unit_us if text.isdigit() else value * unit_us
    if us > LAST_US:
        raise BadRecord("absurd_time", f"{name} ({shown(text)}) is not between 1970 and 2200.")
    return _EPOCH + timedelta(microseconds=us)


def iso(name: str, text: str, zone: ZoneInfo | None, *, not_before: datetime | None = None) -> datetime:
    """Parse an ISO 8601 time; without an offset it is a local time of the zone."""
    form = _ISO.fullmatch(text)
    if not form:
        raise BadRecord("bad_time", f"{name} is {shown(text)}; times look like 2026-11-20T12:00:00Z.")
    plain, leap = split_leap_second(text)
    try:
        instant = datetime.fromisoformat(plain)
        if form[1] is None:
            instant = local(name, instant, zone, not_before=not_before)
        return add_leap_second(instant.astimezone(UTC), leap)
    except (ValueError, OverflowError) as error:
        raise BadRecord("bad_time", f"{name} is {shown(text)}, which is not in the calendar.") from error


def local(name: str, naive: datetime, zone: ZoneInfo | None, *, not_before: datetime | None = None) -> datetime:
    """Convert a local time to an instant; `not_before` as in `instant_of`."""
    if zone is None:
        raise BadRecord("naive_time", f"{name} ({naive}) has no time zone, and the source has none: set one.")
    try:
        return instant_of(naive, zone, not_before=not_before)
    except NoSuchTime as error:
        raise BadRecord("nonexistent_time", f"{name}: {error}") from error
    except OverflowError as error:
        raise BadRecord("bad_time", f"{name} ({naive}) is at the end of the calendar.") from error


def iso_duration_s(name: str, text: str) -> float:
    """Parse a duration like P1DT2H3M4.5S to seconds. Years and months have no fixed length and must be 0."""
    form = _DURATION.fullmatch(text)
    if not form or text.endswith(("P", "T")):
        raise BadRecord("bad_duration", f"{name} is {shown(text)}; durations look like PT1H30M or PT5400S.")
    minus, years, months, *parts = form.groups()
    if minus:
        raise BadRecord("negative_number", f"{name} is {shown(text)}, below zero.")
    if int(years or 0) or int(months or 0):
        raise BadRecord("bad_duration", f"{name} is {shown(text)}: a year or month has no fixed length; give days.")
    lengths = (7 * 86400, 86400, 3600, 60, 1)
    return _checked_run_time(
        name, text, sum(float(part or 0) * length for part, length in zip(parts, lengths, strict=True))
    )


def clock_s(name: str, text: str) -> float:
    """Parse D:HH:MM:SS, HH:MM:SS, MM:SS or a number of seconds."""
    form = _CLOCK.fullmatch(text)
    if form:
        if form[1]:
            raise BadRecord("negative_number", f"{name} is {shown(text)}, below zero.")
        return _checked_run_time(name, text, int(form[2] or 0) * 3600 + int(form[3]) * 60 + int(form[4]))
    days, colon, rest = text.partition(":")
    if colon and rest.count(":") == 2 and _CLOCK.fullmatch(rest):
        return _checked_run_time(name, text, amount(name, days) * 86400 + clock_s(name, rest))
    if colon:
        raise BadRecord("bad_duration", f"{name} is {shown(text)}; durations look like 01:30:00 or 5400.")
    return _checked_run_time(name, text, amount(name, text))


def _checked_run_time(name: str, text: str, seconds: float) -> float:
    if not seconds <= MOST_JOB_S:
        raise BadRecord("absurd_run_time", f"{name} ({shown(text)}) is more than {MOST_JOB_S // 86400} days.")
    return seconds
