"""Instants and durations as schedulers write them: seconds since 1970, local times without a zone, ISO 8601."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from apps.usage.parsers.base import LAST_US, MOST_JOB_S
from apps.usage.parsers.field_checks import BadRecord, amount, number, shown

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_S = LAST_US / 1e6
_MILLISECONDS = 1e11  # seconds over this are in the year 5138; such a stamp counts milliseconds
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?", re.ASCII)
_DURATION = re.compile(
    r"(-)?P(?:(\d{1,9})Y)?(?:(\d{1,9})M)?(?:(\d{1,9})W)?(?:(\d{1,9})D)?"
    r"(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,12}(?:\.\d{1,9})?)S)?)?",
    re.ASCII,
)
_CLOCK = re.compile(r"(-)?(?:(\d{1,6}):)?(\d{1,9}):(\d\d)(?:\.\d{1,6})?", re.ASCII)


def epoch(name: str, text: str, *, milliseconds: bool = False) -> datetime | None:
    """Seconds since 1970, or milliseconds where they must be; None for 0 and below, which mean "never"."""
    value = number(name, text)
    if milliseconds and value >= _MILLISECONDS:
        value /= 1000
    if value <= 0:
        return None
    if value > _LAST_S:
        raise BadRecord("absurd_time", f"{name} ({shown(text)}) is not between 1970 and 2200.")
    return _EPOCH + timedelta(seconds=value)


def iso(name: str, text: str, zone: ZoneInfo | None, *, not_before: datetime | None = None) -> datetime:
    """An ISO 8601 time; one without an offset is the zone's."""
    form = _ISO.fullmatch(text)
    if not form:
        raise BadRecord("bad_time", f"{name} is {shown(text)}; times look like 2026-11-20T12:00:00Z.")
    try:
        found = datetime.fromisoformat(text)
        if form[1] is not None:
            return found.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise BadRecord("bad_time", f"{name} is {shown(text)}, which no calendar has.") from error
    return local(name, found, zone, not_before=not_before)


def local(name: str, naive: datetime, zone: ZoneInfo | None, *, not_before: datetime | None = None) -> datetime:
    """A local time as an instant.

    Of an hour that clocks go through twice the first pass is meant, or the second where the first would lie before
    `not_before`: a job doesn't end before it starts.
    """
    if zone is None:
        raise BadRecord("naive_time", f"{name} ({naive}) names no time zone, and the source has none: set one.")
    try:
        found = naive.replace(tzinfo=zone, fold=0).astimezone(UTC)
        if found.astimezone(zone).replace(tzinfo=None, fold=0) != naive:
            message = f"{name} ({naive}) doesn't exist in {zone.key}: clocks were put forward."
            raise BadRecord("nonexistent_time", message)
        if not_before is not None and found < not_before:
            return naive.replace(tzinfo=zone, fold=1).astimezone(UTC)
    except OverflowError as error:
        raise BadRecord("bad_time", f"{name} ({naive}) is at the end of the calendar.") from error
    return found


def iso_duration_s(name: str, text: str) -> float:
    """Seconds of P1DT2H3M4.5S. Years and months have no length: only 0 of them is accepted."""
    form = _DURATION.fullmatch(text)
    if not form or text.endswith(("P", "T")):
        raise BadRecord("bad_duration", f"{name} is {shown(text)}; durations look like PT1H30M or PT5400S.")
    minus, years, months, *parts = form.groups()
    if minus:
        raise BadRecord("negative_number", f"{name} is {shown(text)}, below zero.")
    if int(years or 0) or int(months or 0):
        raise BadRecord("bad_duration", f"{name} is {shown(text)}: a year or month has no fixed length; give days.")
    lengths = (7 * 86400, 86400, 3600, 60, 1)
    return _believed(name, text, sum(float(part or 0) * length for part, length in zip(parts, lengths, strict=True)))


def clock_s(name: str, text: str) -> float:
    """Seconds of D:HH:MM:SS, HH:MM:SS, MM:SS or of a plain number."""
    form = _CLOCK.fullmatch(text)
    if form:
        if form[1]:
            raise BadRecord("negative_number", f"{name} is {shown(text)}, below zero.")
        return _believed(name, text, int(form[2] or 0) * 3600 + int(form[3]) * 60 + int(form[4]))
    days, colon, rest = text.partition(":")
    if colon and rest.count(":") == 2 and _CLOCK.fullmatch(rest):
        return _believed(name, text, amount(name, days) * 86400 + clock_s(name, rest))
    if colon:
        raise BadRecord("bad_duration", f"{name} is {shown(text)}; durations look like 01:30:00 or 5400.")
    return _believed(name, text, amount(name, text))


def _believed(name: str, text: str, seconds: float) -> float:
    if not seconds <= MOST_JOB_S:
        raise BadRecord("absurd_run_time", f"{name} ({shown(text)}) is more than {MOST_JOB_S // 86400} days.")
    return seconds
