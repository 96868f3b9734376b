"""Validate values of records, and parse numbers as schedulers write them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

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

LONGEST_OF_FIELDS = {
    **{"job": 128, "array_task": 64, "cluster": 128, "site": 128, "queue": 128, "partition": 128, "qos": 128},
    **{"user": 256, "group": 256, "dn": 1024, "fqan": 512, "project": 256},
}
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)
Value = TypeVar("Value")
UNKNOWN_USER = "unknown"
VALUES_IGNORED = "values_ignored"  # begins the name of a note, before that of the column
# Columns that the usage of a job doesn't need, and what a record has in place of a value that can't be read or stored.
NEEDLESS: dict[str, str | float | None] = {
    **dict.fromkeys(("gpus", "nodes", "mem_mb", "billing"), 0.0),
    **dict.fromkeys(("queue", "partition", "qos", "site"), ""),
    "requested_s": None,
}
_MOST_OF_FIELDS = {**dict.fromkeys(("cpus", "gpus", "nodes", "billing"), MOST_RATE), "mem_mb": MOST_MEM_MB}
_MOST_FIELD_REQUESTED_S = 1e12
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


def note_ignored(notes: dict[str, int], name: str, n: int = 1) -> None:
    """Count values of a column that usage doesn't need, and that can't be read or stored."""
    key = f"{VALUES_IGNORED} {name}".strip()
    notes[key] = notes.get(key, 0) + n


def if_readable(read: Callable[[], Value], otherwise: Value, notes: dict[str, int], name: str = "") -> Value:
    """A value that usage doesn't need: `otherwise`, and a note with the name, where it can't be read."""
    try:
        return read()
    except BadRecord:
        note_ignored(notes, name)
        return otherwise


def whole(name: str, text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise BadRecord("not_a_number", f"{name} is {shown(text)}, which is not a whole number.")
    return int(text)


def checked(row: RecordRow, notes: dict[str, int] | None = None) -> RecordRow:
    """Return a valid row; a row without user and group gets the user "unknown".

    With notes, a value that usage doesn't need and that can't be stored is ignored, and counted there by name.

    Raises:
        BadRecord: the first problem found.
    """
    if notes is not None:
        row = _without_bad_extras(row, notes)
    for name, most in LONGEST_OF_FIELDS.items():
        _check_text(name, getattr(row, name), most)
    if not row.job:
        raise BadRecord("missing_field", "The job has no id.")
    for name, limit in _MOST_OF_FIELDS.items():
        _check_number(name, getattr(row, name), limit)
    if row.requested_s is not None:
        _check_number("requested time (s)", row.requested_s, _MOST_FIELD_REQUESTED_S)
    for name, last in _INTEGERS.items():
        if not 0 <= getattr(row, name) <= last:
            raise BadRecord("absurd_number", f"{name} is {getattr(row, name)}, not from 0 to {last}.")
    _check_times(row)
    if not (row.user or row.group or row.dn or row.fqan or row.project):
        return row._replace(user=UNKNOWN_USER)
    return row


def _without_bad_extras(row: RecordRow, notes: dict[str, int]) -> RecordRow:
    ignored: dict[str, str | float | None] = {}
    for name, otherwise in NEEDLESS.items():
        value = getattr(row, name)
        if not value:
            continue
        try:
            if isinstance(value, str):
                _check_text(name, value, LONGEST_OF_FIELDS[name])
            else:
                _check_number(name, value, _MOST_OF_FIELDS.get(name, _MOST_FIELD_REQUESTED_S))
        except BadRecord:
            note_ignored(notes, name)
            ignored[name] = otherwise
    return row._replace(**ignored) if ignored else row  # type: ignore[arg-type]


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
