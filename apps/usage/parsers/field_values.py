"""Validate values of records, and parse numbers, times and durations as schedulers write them.

Times are seconds since 1970, local times without a zone, or ISO 8601.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from zoneinfo import ZoneInfo

from apps.core.local_time import NoSuchTime, instant_of
from apps.usage.parsers.base import (
    FIRST_US,
    LAST_US,
    MOST_JOB_S,
    MOST_MEM_MB,
    MOST_RATE,
    MOST_RESTART,
    MOST_REVISION,
    RecordRow,
    excerpt,
)

MOST_CHARACTERS = {
    **{"job": 128, "array_task": 64, "cluster": 128, "site": 128, "queue": 128, "partition": 128, "qos": 128},
    **{"user": 256, "group": 256, "dn": 1024, "fqan": 512, "project": 256},
}
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)
Value = TypeVar("Value")
UNKNOWN_USER = "unknown"
_MOST = {**dict.fromkeys(("cpus", "gpus", "nodes", "billing"), MOST_RATE), "mem_mb": MOST_MEM_MB}
_MOST_REQUESTED_S = 1e12
_INTEGERS = {"restart": MOST_RESTART, "revision": MOST_REVISION}
_WHOLE = re.compile(r"[+-]?\d{1,20}", re.ASCII)
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_FIRST = datetime.fromtimestamp(FIRST_US / 1e6, UTC)
_LAST = datetime.fromtimestamp(LAST_US / 1e6, UTC)


class BadRecord(Exception):
    """A rejected record. `line`: its first line, if the problem was found on a later one."""

    def __init__(self, code: str, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.line = line


def shown(value: str) -> str:
    return repr(excerpt(value))


def number(name: str, text: str) -> float:
    """Parse a finite decimal number; Python's other forms (nan, inf, 1_000) are rejected."""
    if not NUMBER.fullmatch(text):
        raise BadRecord("not_a_number", f"{name} is {shown(text)}, which is not a number.")
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise BadRecord("absurd_number", f"{name} is {shown(text)}, which is too large.")
    return value


def amount(name: str, text: str) -> float:
    value = number(name, text)
    if value < 0:
        raise BadRecord("negative_number", f"{name} is {shown(text)}, below zero.")
    return value


def if_readable(read: Callable[[], Value], otherwise: Value, notes: Counter[str]) -> Value:
    """A value that usage doesn't need: `otherwise`, and a note, where it can't be read."""
    try:
        return read()
    except BadRecord:
        notes["values_ignored"] += 1
        return otherwise


def whole(name: str, text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise BadRecord("not_a_number", f"{name} is {shown(text)}, which is not a whole number.")
    return int(text)


def checked(row: RecordRow) -> RecordRow:
    """Return a valid row; a row without user and group gets the user "unknown".

    Raises:
        BadRecord: the first problem found.
    """
    for name, most in MOST_CHARACTERS.items():
        _check_text(name, getattr(row, name), most)
    if not row.job:
        raise BadRecord("missing_field", "The job has no id.")
    for name, limit in _MOST.items():
        _check_number(name, getattr(row, name), limit)
    if row.requested_s is not None:
        _check_number("requested time (s)", row.requested_s, _MOST_REQUESTED_S)
    for name, last in _INTEGERS.items():
        if not 0 <= getattr(row, name) <= last:
            raise BadRecord("absurd_number", f"{name} is {getattr(row, name)}, not from 0 to {last}.")
    _check_times(row)
    if not (row.user or row.group or row.dn or row.fqan or row.project):
        return row._replace(user=UNKNOWN_USER)
    return row


def _check_text(name: str, text: str, most: int) -> None:
    if not text or (text.isascii() and text.isprintable() and len(text) <= most):
        return
    if len(text) > most:
        raise BadRecord("too_long", f"{name} has more than {most} characters.")
    if _SURROGATE.search(text):
        raise BadRecord("not_utf8", f"{name} is {shown(text)}, which is not UTF-8.")
    if _CONTROL.search(text):
        raise BadRecord("bad_text", f"{name} contains a control character.")


def _check_number(name: str, value: float, most: float) -> None:
    if value < 0:
        raise BadRecord("negative_number", f"{name} is {value:g}, below zero.")
    if not value <= most:  # NaN too
        raise BadRecord("absurd_number", f"{name} is {value:g}; at most {most:.0f} is accepted.")


def _check_times(row: RecordRow) -> None:
    if row.submit_at is None and row.start_at is None:
        raise BadRecord("missing_field", "Neither the submission nor the start is known.")
    for name in ("submit_at", "start_at", "end_at"):
        at = getattr(row, name)
        if at is not None and not _FIRST <= at <= _LAST:
            raise BadRecord("absurd_time", f"{name.removesuffix('_at')} ({at:%Y-%m-%d}) is not between 1970 and 2200.")
    if row.state == "finished" and (row.start_at is None or row.end_at is None):
        raise BadRecord("missing_field", f"{'start' if row.start_at is None else 'end'} is missing.")
    if row.start_at is None or row.end_at is None:
        return
    if row.end_at < row.start_at:
        raise BadRecord("end_before_start", f"end ({row.end_at}) is before start ({row.start_at}).")
    if (row.end_at - row.start_at).total_seconds() > MOST_JOB_S:
        raise BadRecord("absurd_run_time", f"It ran for more than {MOST_JOB_S // 86400} days.")


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
    try:
        found = datetime.fromisoformat(text)
        if form[1] is not None:
            return found.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise BadRecord("bad_time", f"{name} is {shown(text)}, which is not in the calendar.") from error
    return local(name, found, zone, not_before=not_before)


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
