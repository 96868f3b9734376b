"""Parse many records in the format of the REST API at once, column by column, if none needs a full check.

Results equal those of `records_json`, which parses records one by one if this module cannot.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from apps.usage.parsers.base import (
    F8,
    FINISHED,
    FIRST_US,
    I8,
    LAST_US,
    MOST_JOB_S,
    MOST_MEM_MB,
    MOST_RATE,
    MOST_RESTART,
    MOST_REVISION,
    AccountNames,
    Bytes,
    JobClassKey,
    RecordBatch,
    text_column,
)
from apps.usage.parsers.field_values import LONGEST_OF_FIELDS

MOST_PLAIN_REQUESTED_S = 1e12
NUMBERS = {
    **{"cpus": MOST_RATE, "gpus": MOST_RATE, "nodes": MOST_RATE, "billing": MOST_RATE},
    **{"mem_mb": MOST_MEM_MB, "requested_s": MOST_PLAIN_REQUESTED_S},
}
INTEGERS = {"restart": MOST_RESTART, "revision": MOST_REVISION}
TIMES = ("submit", "start", "end")
FIELDS = (*LONGEST_OF_FIELDS, *NUMBERS, *INTEGERS, *TIMES, "state")
KNOWN = frozenset(FIELDS)
REQUIRED = {
    "finished": ("job", "user", "start", "end", "cpus"),
    "running": ("job", "user", "start", "cpus"),
    "pending": ("job", "user", "submit", "cpus"),
    "withdrawn": ("job", "user"),
}
FORBIDDEN = {"running": ("end",), "pending": ("start", "end")}
MAYBE_NUMBER = ("job", "array_task")  # schedulers may write them as numbers
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


_NONE = type(None)
_SECONDS = 19  # length of 2026-11-20T12:00:00, before the offset
_LONGEST_INSTANT = 25  # with an offset like +01:00
_PLAIN_TIMES = re.compile(rb"(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)*")
_OFFSET = re.compile(r"([+-])([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
_WHO = ("user", "group", "dn", "fqan", "project")
_CLASS = ("queue", "partition", "qos")
_MOST_RUN_US = MOST_JOB_S * 1_000_000


class _NotPlain(Exception):
    """One of these records needs a full check."""


def plain_records(values: Sequence[Any], lines: Sequence[int]) -> RecordBatch | None:
    """Parse finished jobs whose fields all have the usual type and form; None if one of them hasn't."""
    try:
        return _Columns(values).batch(lines)
    except _NotPlain:
        return None


class _Columns:
    def __init__(self, values: Sequence[Any]) -> None:
        if set(map(type, values)) != {dict}:
            raise _NotPlain
        self._n = len(values)
        names = sorted(set().union(*values))
        if not set(REQUIRED["finished"]) <= set(names) <= KNOWN:
            raise _NotPlain
        self._columns = _transposed(values, names)
        if any(state is not None and state != "finished" for state in self._of("state")):
            raise _NotPlain
        if any(None in self._of(name) for name in REQUIRED["finished"]):
            raise _NotPlain

    def batch(self, lines: Sequence[int]) -> RecordBatch:
        texts = {name: self._texts(name) for name in LONGEST_OF_FIELDS}
        if "" in texts["job"] or "" in texts["user"]:
            raise _NotPlain
        start_us, end_us = self._instants("start"), self._instants("end")
        submit_us = self._instants("submit", otherwise=start_us)
        ran_us = end_us - start_us
        if ran_us.min() < 0 or ran_us.max() > _MOST_RUN_US:
            raise _NotPlain
        people, who = _coded([texts[name] for name in _WHO])
        classes, job_class = _coded([texts[name] for name in _CLASS])
        n = self._n
        return RecordBatch(
            line=np.asarray(lines, dtype=np.int64),
            job=_column(texts["job"]),
            array_task=_column(texts["array_task"]),
            cluster=_column(texts["cluster"]),
            site=_column(texts["site"]),
            restart=self._integers("restart"),
            revision=self._integers("revision"),
            state=np.full(n, FINISHED, np.int64),
            who=who,
            job_class=job_class,
            submit_us=submit_us,
            start_us=start_us,
            end_us=end_us,
            cpus=self._numbers("cpus"),
            gpus=self._numbers("gpus"),
            nodes=self._numbers("nodes"),
            mem_mb=self._numbers("mem_mb"),
            billing=self._numbers("billing"),
            requested_s=self._numbers("requested_s", np.nan),
            is_charge=np.zeros(n, np.bool_),
            people=[AccountNames(*key) for key in people],
            job_classes=[JobClassKey(*key) for key in classes],
        )

    def _of(self, name: str) -> tuple[Any, ...]:
        return self._columns[name] if name in self._columns else (None,) * self._n

    def _texts(self, name: str) -> Sequence[str]:
        values: Sequence[Any] = self._of(name)
        kinds = set(map(type, values))
        if name in MAYBE_NUMBER and int in kinds:
            values = [str(value) if type(value) is int else value for value in values]
            kinds = (kinds - {int}) | {str}
        if not kinds <= {str, _NONE}:
            raise _NotPlain
        texts = [value or "" for value in values] if _NONE in kinds else values
        distinct = set(texts)
        if max(map(len, distinct)) > LONGEST_OF_FIELDS[name] or CONTROL.search("".join(distinct)):
            raise _NotPlain
        return texts

    def _numbers(self, name: str, otherwise: float = 0.0) -> F8:
        values = self._of(name)
        if not set(map(type, values)) <= {int, float, _NONE}:
            raise _NotPlain
        try:
            numbers = np.array([otherwise if value is None else value for value in values], dtype=np.float64)
        except OverflowError as error:
            raise _NotPlain from error
        if not ((numbers >= 0) & (numbers <= NUMBERS[name]) | np.isnan(numbers)).all():
            raise _NotPlain
        return numbers

    def _integers(self, name: str) -> I8:
        values = self._of(name)
        if not set(map(type, values)) <= {int, _NONE}:
            raise _NotPlain
        wanted = [value or 0 for value in values]
        if min(wanted) < 0 or max(wanted) > INTEGERS[name]:
            raise _NotPlain
        return np.array(wanted, dtype=np.int64)

    def _instants(self, name: str, otherwise: I8 | None = None) -> I8:
        """Whole seconds with an offset, as microseconds since 1970; other forms need a full check."""
        values = self._of(name)
        is_given = np.array([value is not None for value in values])
        texts = [value for value in values if value is not None]
        if set(map(type, texts)) - {str}:
            raise _NotPlain
        instants = _whole_seconds(texts)
        if len(instants) and not (int(instants.min()) >= FIRST_US and int(instants.max()) <= LAST_US):
            raise _NotPlain
        if otherwise is None:
            return instants
        all_of_them = otherwise.copy()
        all_of_them[is_given] = instants
        return all_of_them


def _whole_seconds(instants: Sequence[str]) -> I8:
    if not instants:
        return np.zeros(0, np.int64)
    n, width = len(instants), max(map(len, instants))
    if not _SECONDS < width <= _LONGEST_INSTANT or "\0" in "".join(instants):
        raise _NotPlain
    try:
        texts = np.array(instants, f"S{width}")
    except UnicodeEncodeError as error:
        raise _NotPlain from error
    letters = texts.view(np.uint8).reshape(n, width)
    local = np.ascontiguousarray(letters[:, :_SECONDS]).view(f"S{_SECONDS}").reshape(n)
    if not _PLAIN_TIMES.fullmatch(local.tobytes()):
        raise _NotPlain
    try:
        seconds = local.astype("datetime64[s]").astype(np.int64)
    except ValueError as error:  # a day that is not in the calendar
        raise _NotPlain from error
    offsets = np.ascontiguousarray(letters[:, _SECONDS:]).view(f"S{width - _SECONDS}").reshape(n)
    if (offsets == offsets[0]).all():
        return (seconds - _shift_s(offsets[0].decode())) * 1_000_000
    distinct, index = np.unique(offsets, return_inverse=True)
    shift_s = np.array([_shift_s(offset.decode()) for offset in distinct.tolist()], np.int64)
    return (seconds - shift_s[index]) * 1_000_000


def _transposed(records: Sequence[dict[str, Any]], names: list[str]) -> dict[str, tuple[Any, ...]]:
    """The columns of these names, at least two; None where a record has none."""
    try:
        rows = list(map(itemgetter(*names), records))
    except KeyError:
        rows = [tuple(map(record.get, names)) for record in records]
    return dict(zip(names, zip(*rows, strict=True), strict=True))


def _shift_s(offset: str) -> int:
    if offset in ("Z", "z"):
        return 0
    form = _OFFSET.fullmatch(offset)
    if form is None:
        raise _NotPlain
    seconds = int(form[2]) * 3600 + int(form[3]) * 60
    return seconds if form[1] == "+" else -seconds


def _coded(columns: Sequence[Sequence[str]]) -> tuple[list[tuple[str, ...]], I8]:
    """Distinct combinations in order of first appearance, and the index of each row's combination."""
    known: dict[tuple[str, ...], int] = {}
    codes = [known.setdefault(key, len(known)) for key in zip(*columns, strict=True)]
    return list(known), np.array(codes, dtype=np.int64)


def _column(texts: Sequence[str]) -> Bytes:
    return text_column(texts) if any(texts) else np.zeros(len(texts), "S1")
