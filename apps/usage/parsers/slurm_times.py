"""Slurm's times, a column at once: seconds since 1970, ISO times with and without offset, and its words for none."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from apps.usage.parsers.base import FIRST_US, I8, LAST_US, NO_TIME, Flags, excerpt

NOWHEN = frozenset((b"", b"0", b"None", b"Unknown", b"None assigned", b"N/A", b"NONE"))
_QUARTER_S = 900  # offsets change at quarters of an hour
_DIGITS = [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18]
_WEIGHTS = np.array([1000, 100, 10, 1, 10, 1, 10, 1, 10, 1, 10, 1, 10, 1])
_MARKS = ([4, 7, 10, 13, 16], np.frombuffer(b"--T::", np.uint8))
_DAY_S = 86400

Problems = dict[int, tuple[str, str]]  # row → code and message of the first thing wrong with it


class Times(NamedTuple):
    """Microseconds since 1970, or NO_TIME. `second_us` differs where a local time came twice."""

    first_us: I8
    second_us: I8

    def take(self, chosen: I8 | Flags) -> Times:
        return Times(self.first_us[chosen], self.second_us[chosen])


def no_times(n: int) -> Times:
    return Times(np.full(n, NO_TIME, np.int64), np.full(n, NO_TIME, np.int64))


def epochs(seconds: Sequence[float | None]) -> Times:
    """Numbers of JSON: 0 and null are no time. What is beyond any calendar is left for the check of ranges."""
    us = [NO_TIME if s is None or s == 0 else int(max(min(s, 1e11), -1e11) * 1_000_000) for s in seconds]
    column = np.asarray(us, dtype=np.int64)
    return Times(column, column)


def read_times(name: str, texts: Sequence[bytes], zone: ZoneInfo | None, problems: Problems) -> Times:
    """A column of times; the rows that hold none that can be understood go to `problems`."""
    n = len(texts)
    column = np.array(texts, dtype=np.bytes_) if n else np.zeros(0, "S1")
    times = no_times(n)
    letters = column.view(np.uint8).reshape(n, -1) if n else np.zeros((0, 1), np.uint8)
    is_epoch = _are_epochs(letters)
    times.first_us[is_epoch] = times.second_us[is_epoch] = column[is_epoch].astype(np.int64) * 1_000_000
    is_local, local_s = _iso(letters)
    if is_local.any():
        _place(name, texts, np.flatnonzero(is_local), local_s, zone, times, problems)
    for row in np.flatnonzero(~is_epoch & ~is_local).tolist():
        if texts[row] not in NOWHEN:
            _one(name, row, texts[row], times, problems)
    return times


def _are_epochs(letters: npt.NDArray[np.uint8]) -> Flags:
    """Rows of 1 to 12 digits, but not a lone 0, which Slurm writes for none."""
    is_short = (letters[:, 12:] == 0).all(axis=1)
    head = letters[:, :12]
    is_digit = (head >= 48) & (head <= 57)
    is_none = (head[:, 0] == 48) & (head[:, 1:] == 0).all(axis=1)
    is_epoch: Flags = is_short & (is_digit | (head == 0)).all(axis=1) & is_digit[:, 0] & ~is_none
    return is_epoch


def _iso(letters: npt.NDArray[np.uint8]) -> tuple[Flags, I8]:
    """Which rows are `2026-11-20T06:30:54` of the calendar, and their local seconds since 1970."""
    n, width = letters.shape
    if width < 19:
        return np.zeros(n, np.bool_), np.zeros(0, np.int64)
    digits = letters[:, _DIGITS].astype(np.int64) - 48
    is_iso = ((digits >= 0) & (digits <= 9)).all(axis=1) & (letters[:, _MARKS[0]] == _MARKS[1]).all(axis=1)
    is_iso &= (letters[:, 19:] == 0).all(axis=1)
    parts = digits[is_iso] * _WEIGHTS
    year = parts[:, :4].sum(axis=1)
    month, day, hour, minute, second = (parts[:, at : at + 2].sum(axis=1) for at in (4, 6, 8, 10, 12))
    months = (year - 1970) * 12 + month - 1
    days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + day - 1
    same_month = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) == months
    good = (month >= 1) & (month <= 12) & (day >= 1) & same_month & (hour < 24) & (minute < 60) & (second < 60)
    is_iso[is_iso] = good
    return is_iso, (((days * 24 + hour) * 60 + minute) * 60 + second)[good]


def _place(
    name: str,
    texts: Sequence[bytes],
    rows: I8,
    local_s: I8,
    zone: ZoneInfo | None,
    times: Times,
    problems: Problems,
) -> None:
    """Local times as instants. An hour that comes twice has two; one that was skipped has none."""
    if zone is None:
        why = "has no offset, and the source has no time zone: set its zone, or call sacct with SLURM_TIME_FORMAT=%s."
        for row in rows.tolist():
            problems.setdefault(row, ("naive_time", f"{name} ({excerpt(texts[row])}) {why}"))
        return
    possible = (local_s > FIRST_US // 1_000_000 + 2 * _DAY_S) & (local_s < LAST_US // 1_000_000 - 2 * _DAY_S)
    for row in rows[~possible].tolist():
        problems.setdefault(row, ("absurd_time", f"{name} ({excerpt(texts[row])}) is not between 1970 and 2200."))
    rows, local_s = rows[possible], local_s[possible]
    quarters, place = np.unique(local_s // _QUARTER_S, return_inverse=True)
    offsets = np.array([_offsets(zone, quarter) for quarter in quarters.tolist()], np.int64).reshape(-1, 3)[place]
    times.first_us[rows] = (local_s - offsets[:, 0]) * 1_000_000
    times.second_us[rows] = (local_s - offsets[:, 1]) * 1_000_000
    for row in rows[offsets[:, 2] == 0].tolist():
        why = f"doesn't exist in {zone.key}: clocks were put forward. Check the source's time zone."
        problems.setdefault(row, ("nonexistent_time", f"{name} ({excerpt(texts[row])}) {why}"))


@lru_cache(maxsize=65_536)
def _offsets(zone: ZoneInfo, quarter: int) -> tuple[int, int, int]:
    """The offsets (s) of a local quarter of an hour: at its first pass, at its second, and whether it exists."""
    naive = datetime(1970, 1, 1) + timedelta(seconds=quarter * _QUARTER_S)  # noqa: DTZ001 - local on purpose
    first, second = naive.replace(tzinfo=zone), naive.replace(tzinfo=zone, fold=1)
    exists = first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == naive
    return _seconds(first.utcoffset()), _seconds(second.utcoffset()), int(exists)


def _seconds(offset: timedelta | None) -> int:
    return int(offset.total_seconds()) if offset is not None else 0


def _one(name: str, row: int, text: bytes, times: Times, problems: Problems) -> None:
    """A time with an offset, or an unknown form."""
    try:
        at = datetime.fromisoformat(text.decode("ascii"))
        if at.tzinfo is None:
            raise ValueError
        since = at.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    except (ValueError, OverflowError):
        why = "looks like no time: call sacct with SLURM_TIME_FORMAT=%s, or unset that variable."
        problems.setdefault(row, ("bad_time", f"{name} is {excerpt(text)!r}, which {why}"))
        return
    times.first_us[row] = times.second_us[row] = (since.days * _DAY_S + since.seconds) * 1_000_000
