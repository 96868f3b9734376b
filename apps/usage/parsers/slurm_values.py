"""Parse Slurm's times, durations, limits and trackable resources (TRES), in text and in JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from apps.core.local_time import add_leap_second, instant_of, split_leap_second
from apps.core.resource_kinds import Kinds, make_kinds
from apps.usage.parsers.base import FIRST_US, I8, LAST_US, NO_TIME, Flags, excerpt, narrow_column
from apps.usage.parsers.slurm_billing import IN_MEGABYTES

NOWHEN = frozenset((b"", b"0", b"None", b"Unknown", b"None assigned", b"N/A", b"NONE"))
_LONGEST_TIME = 19  # bytes of those that are read together
_QUARTER_S = 900  # offsets change at quarter hours
_DIGITS = [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18]
_MARKS = ([4, 7, 10, 13, 16], np.frombuffer(b"--T::", np.uint8)[:, None])
_DAY_S = 86400

Problems = dict[int, tuple[str, str]]  # row → code and message of its first problem

_DURATION = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,6}):)?(\d{1,6}):(\d{1,2})(?:\.\d{1,6})?")
_AMOUNT = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)([KMGTPE]?)")
_INDICES = re.compile(r"\([^()]*\)")  # which devices of a host: (IDX:0-3), (S:0-1)
_SCALE = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}  # exponents of 1024; Slurm prints none over P
_NO_LIMIT = frozenset(("", "UNLIMITED", "Partition_Limit", "INVALID", "Invalid", "None", "Unknown"))
_MOST_TASK_TEXT = 64 * 1024
_MOST_TASKS = 10_000_000  # Slurm allows 4 million in an array
_BITS = re.compile(r"0x[0-9A-Fa-f]{1,65000}")
_TASKS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?(?::(\d{1,9}))?")
_NO_VALUES = frozenset((0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF))  # unset and infinite
_LEAST_NO_VALUE = 1.8e19  # the 64-bit ones as floating point
_NO_AMOUNTS = frozenset(map(str, _NO_VALUES))  # as Slurm writes energy that nothing measured
_COUNTED = frozenset(("cpu", "mem", "node", "billing", "gres/gpu"))
_TYPED_GPU = "gres/gpu:"
WCKEYS = "wckeys"  # of notes: jobs that name one
_NO_KINDS = frozenset(("vmem", "pages", "gres/gpumem", "gres/gpuutil"))  # measured while a job runs, not allocated
_MEASURED = ("fs/", "ic/")


def is_wckey(value: Any) -> bool:
    """Whether a job's wckey names one: `*` before it marks the user's default, and alone is none."""
    return isinstance(value, str) and bool(value.strip().removeprefix("*"))


class Times(NamedTuple):
    """Microseconds since 1970, or NO_TIME. `second_us` differs for an ambiguous local time."""

    first_us: I8
    second_us: I8

    def take(self, chosen: I8 | Flags) -> Times:
        return Times(self.first_us[chosen], self.second_us[chosen])


def no_times(n: int) -> Times:
    return Times(np.full(n, NO_TIME, np.int64), np.full(n, NO_TIME, np.int64))


def epochs(seconds: Sequence[float | None]) -> Times:
    """Convert JSON numbers; 0 and null are no time. Too large numbers are left for the range check."""
    us = [NO_TIME if s is None or s == 0 else int(max(min(s, 1e11), -1e11) * 1_000_000) for s in seconds]
    column = np.asarray(us, dtype=np.int64)
    return Times(column, column)


def read_times(name: str, texts: Sequence[bytes], zone: ZoneInfo | None, problems: Problems) -> Times:
    """Parse a column of times; rows with invalid times are added to `problems`."""
    n = len(texts)
    column = narrow_column(texts, _LONGEST_TIME)
    times = no_times(n)
    letters = column.view(np.uint8).reshape(n, -1) if n else np.zeros((0, 1), np.uint8)
    is_local, local_s = _iso(letters)
    if is_local.any():
        _to_instants(name, texts, np.flatnonzero(is_local), local_s, zone, times, problems)
    if is_local.all():
        return times
    is_epoch = _are_epochs(letters)
    times.first_us[is_epoch] = times.second_us[is_epoch] = column[is_epoch].astype(np.int64) * 1_000_000
    for row in np.flatnonzero(~is_epoch & ~is_local).tolist():
        if texts[row] not in NOWHEN:
            _parse_other_time(name, row, texts[row], zone, times, problems)
    return times


def _are_epochs(letters: npt.NDArray[np.uint8]) -> Flags:
    """Rows of 1 to 12 digits, except a single 0, which Slurm writes for none."""
    is_short = (letters[:, 12:] == 0).all(axis=1)
    head = letters[:, :12]
    is_digit = (head >= 48) & (head <= 57)
    is_none = (head[:, 0] == 48) & (head[:, 1:] == 0).all(axis=1)
    is_epoch: Flags = is_short & (is_digit | (head == 0)).all(axis=1) & is_digit[:, 0] & ~is_none
    return is_epoch


def _iso(letters: npt.NDArray[np.uint8]) -> tuple[Flags, I8]:
    """Rows of the form `2026-11-20T06:30:54`, and their local seconds since 1970."""
    n, width = letters.shape
    if width < 19:
        return np.zeros(n, np.bool_), np.zeros(0, np.int64)
    by_place = np.ascontiguousarray(letters[:, :19].T)  # each place of all texts together
    digits = by_place[_DIGITS] - np.uint8(ord("0"))  # of another letter: 10 or more
    is_iso = (digits < 10).all(axis=0) & (by_place[_MARKS[0]] == _MARKS[1]).all(axis=0)
    is_iso &= (letters[:, 19:] == 0).all(axis=1)
    digit = digits[:, is_iso].astype(np.int64)
    century, years, month, day, hour, minute, second = (10 * digit[at] + digit[at + 1] for at in range(0, 14, 2))
    year = 100 * century + years
    months = (year - 1970) * 12 + month - 1
    days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + day - 1
    same_month = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) == months
    good = (month >= 1) & (month <= 12) & (day >= 1) & same_month & (hour < 24) & (minute < 60) & (second < 60)
    is_iso[is_iso] = good
    return is_iso, (((days * 24 + hour) * 60 + minute) * 60 + second)[good]


def _to_instants(
    name: str,
    texts: Sequence[bytes],
    rows: I8,
    local_s: I8,
    zone: ZoneInfo | None,
    times: Times,
    problems: Problems,
) -> None:
    """Convert local times to instants. An ambiguous hour has two; a skipped one has none."""
    if zone is None:
        why = "has no offset, and the source has no time zone: set its zone, or call sacct with SLURM_TIME_FORMAT=%s."
        for row in rows.tolist():
            problems.setdefault(row, ("naive_time", f"{name} ({excerpt(texts[row])}) {why}"))
        return
    possible = (local_s > FIRST_US // 1_000_000 + 2 * _DAY_S) & (local_s < LAST_US // 1_000_000 - 2 * _DAY_S)
    for row in rows[~possible].tolist():
        problems.setdefault(row, ("absurd_time", f"{name} ({excerpt(texts[row])}) is not between 1970 and 2200."))
    rows, local_s = rows[possible], local_s[possible]
    quarters, index = np.unique(local_s // _QUARTER_S, return_inverse=True)
    offsets = np.array([_offsets(zone, quarter) for quarter in quarters.tolist()], np.int64).reshape(-1, 3)[index]
    times.first_us[rows] = (local_s - offsets[:, 0]) * 1_000_000
    times.second_us[rows] = (local_s - offsets[:, 1]) * 1_000_000
    for row in rows[offsets[:, 2] == 0].tolist():
        why = f"doesn't exist in {zone.key}: clocks were put forward. Check the source's time zone."
        problems.setdefault(row, ("nonexistent_time", f"{name} ({excerpt(texts[row])}) {why}"))


@lru_cache(maxsize=65_536)
def _offsets(zone: ZoneInfo, quarter: int) -> tuple[int, int, int]:
    """Offsets (s) of a local quarter hour: the first, the second if it is ambiguous, and whether it exists."""
    naive = datetime(1970, 1, 1) + timedelta(seconds=quarter * _QUARTER_S)  # noqa: DTZ001 - a local time
    first, second = naive.replace(tzinfo=zone), naive.replace(tzinfo=zone, fold=1)
    exists = first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == naive
    return _seconds(first.utcoffset()), _seconds(second.utcoffset()), int(exists)


def _seconds(offset: timedelta | None) -> int:
    return int(offset.total_seconds()) if offset is not None else 0


def _parse_other_time(
    name: str, row: int, text: bytes, zone: ZoneInfo | None, times: Times, problems: Problems
) -> None:
    """Parse a time with an offset, or a leap second; report an unknown form."""
    try:
        plain, leap = split_leap_second(text.decode("ascii"))
        at = datetime.fromisoformat(plain)
        if at.tzinfo is None:
            if not leap or zone is None:
                raise ValueError
            at = instant_of(at, zone)
        since = add_leap_second(at, leap).astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    except (ValueError, OverflowError):
        why = "looks like no time: call sacct with SLURM_TIME_FORMAT=%s, or unset that variable."
        problems.setdefault(row, ("bad_time", f"{name} is {excerpt(text)!r}, which {why}"))
        return
    times.first_us[row] = times.second_us[row] = (since.days * _DAY_S + since.seconds) * 1_000_000


class Tres(NamedTuple):
    """Resources of a job; NaN if not given."""

    cpus: float = math.nan
    gpus: float = math.nan
    mem_mb: float = math.nan
    nodes: float = math.nan
    billing: float = math.nan


def read_duration_s(text: str) -> float:
    """Whole seconds of `[days-][hours:]minutes:seconds[.fraction]`, or of a number of seconds.

    Raises:
        ValueError: other text.
    """
    if text.isascii() and text.isdigit() and len(text) <= 12:
        return float(text)
    match = _DURATION.fullmatch(text)
    if not match:
        raise ValueError(text)
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def read_limit_s(text: str) -> float:
    """Seconds of a time limit; NaN for none.

    Raises:
        ValueError: not a limit.
    """
    return math.nan if text in _NO_LIMIT else read_duration_s(text)


def read_tres(text: str) -> tuple[Tres, Kinds, tuple[str, ...]]:
    """Parse `billing=2,cpu=2,gres/gpu:a100=1,mem=4000M,node=1`. Typed devices are summed if their total isn't given.

    Returns the amounts by kind, and the names of amounts that can't be read, too: they count as missing.

    Raises:
        ValueError: a part is not `name=amount`, or the number of processors can't be read.
    """
    amounts, unreadable = [], []
    for name, amount in _parts(text):
        if name in _COUNTED or (is_kind(name) and amount not in _NO_AMOUNTS):
            try:
                amounts.append((name, _amount(name, amount)))
            except ValueError:
                if name == "cpu":
                    raise
                unreadable.append(name)
    kinds, bad = tres_kinds(amounts)
    return sum_tres(amounts), kinds, (*unreadable, *bad)


def list_tres(text: str) -> list[tuple[str, float]]:
    """All amounts of such a text by name, memory in MB; those that can't be read are left out."""
    amounts = []
    for name, amount in _parts(text):
        with suppress(ValueError):
            amounts.append((name, _amount(name, amount)))
    return amounts


def list_gres(text: str) -> list[tuple[str, float]]:
    """Amounts by name of `gpu:h100:4(IDX:0-3),gpu:2`, as Slurm lists devices that its accounting doesn't track."""
    amounts = []
    for part in _INDICES.sub("", text).split(","):
        kind, *more = part.strip().split(":")
        number = more.pop() if more and _AMOUNT.fullmatch(more[-1]) else "1"
        if kind:
            amounts.append((":".join((f"gres/{kind}", *more)), read_amount(number)))
    return amounts


def _parts(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(",") if text else ():
        name, equals, amount = part.partition("=")
        if not equals:
            raise ValueError(part)
        yield name, amount


def sum_tres(pairs: Iterable[tuple[str, float]]) -> Tres:
    """Sum amounts by name as in text (`gres/gpu`, `gres/gpu:a100`); memory in MB.

    The number of GPUs is never below the sum of those by type.
    """
    amounts: dict[str, float] = {}
    typed = math.nan
    for name, amount in pairs:
        if name.startswith(_TYPED_GPU):
            typed = amount if math.isnan(typed) else typed + amount
        elif name in _COUNTED:
            amounts[name] = amount
    cpus, mem_mb, nodes, billing = (amounts.get(name, math.nan) for name in ("cpu", "mem", "node", "billing"))
    gpus = amounts.get("gres/gpu", typed)
    return Tres(cpus, typed if typed > gpus else gpus, mem_mb, nodes, billing)


def is_kind(name: str) -> bool:
    """Whether amounts of this name are a kind of resource, beside the columns of a record."""
    return name not in _COUNTED and name not in _NO_KINDS and not name.startswith(_MEASURED)


def tres_kinds(pairs: Iterable[tuple[str, float]]) -> tuple[Kinds, tuple[str, ...]]:
    """The amounts by kind: `gres/gpu:a100` is `gpu:a100`. Numbers that mean none are left out."""
    is_set = ((name, amount) for name, amount in pairs if is_kind(name) and amount < _LEAST_NO_VALUE)
    return make_kinds(is_set)


def is_counted(kind: Any) -> bool:
    """Whether amounts of this type become a column of a record, or a kind that is mostly allocated."""
    return kind in ("cpu", "mem", "node", "billing", "gres")


def number_of(value: Any) -> float | None:
    """A number of Slurm's JSON, plain or as {set, infinite, number}; None if unset, infinite or not a number."""
    if isinstance(value, dict):
        if value.get("set") is False or value.get("infinite") is True:
            return None
        value = value.get("number")
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
        return float(value)
    if type(value) not in (int, float) or not math.isfinite(value) or is_no_value(value):
        return None
    return float(value)


def is_no_value(value: Any) -> bool:
    """Whether a value means none: Slurm's numbers for "unset" and "infinite", and the word of the latter."""
    return value == "Infinity" or (type(value) in (int, float) and value in _NO_VALUES)


def is_no_name(user: str, uid: str = "") -> bool:
    """Whether a host knew no name of the user: it prints the number, or `nobody`.

    `uid`, where it is known, distinguishes a login of digits alone from a number.
    """
    return user == "nobody" or (user.isdigit() and uid in ("", user))


def count_tasks(text: Any) -> int:
    """Number of tasks in `[0-3,7%2]`, `1-7:2` or, as bits, `0xF`; 1 for other text."""
    if not isinstance(text, str) or not text or len(text) > _MOST_TASK_TEXT:
        return 1
    if _BITS.fullmatch(text):
        return max(int(text, 16).bit_count(), 1)
    n = 0
    for match in _TASKS.finditer(text.partition("%")[0]):
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        n += max((last - first) // max(step, 1) + 1, 0)
    return min(max(n, 1), _MOST_TASKS)


def read_amount(text: str, *, base: str = "") -> float:
    """A number of Slurm's unit printer: `1000`, `1K` = 1024, `1.50K` = 1536; without a letter in units of `base`.

    Raises:
        ValueError: other text.
    """
    match = _AMOUNT.fullmatch(text)
    if not match:
        raise ValueError(text)
    number, suffix = float(match[1]), match[2] or base
    return number * 1024.0 ** (_SCALE[suffix] - _SCALE[base])


def _amount(name: str, text: str) -> float:
    return read_amount(text, base="M" if name.startswith(IN_MEGABYTES) else "")
