"""Running jobs, ended jobs, capacity and reservations of an agent's report: validate, pack and unpack them.

Jobs of one shape come together, so that 100,000 tasks of an array are one row and three columns of numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apps.contrib.schedulers.models import RunningListing
from apps.contrib.schedulers.queue_table import I8, amount, gpus_of, instant_us, text_of, wrong
from apps.core.blobs import pack, unpack

MOST_RUNNING_JOBS = 100_000
MOST_ENDED_JOBS = 20_000
MOST_LISTED_PARTITIONS = 2_000
MOST_RESERVATIONS = 2_000
NO_SECOND = -1
_LATEST_S = 253_402_300_799  # the last second of the calendar
_SHAPE = {
    *("user", "group", "partition", "qos", "cpus", "nodes", "gpus", "limit_s", "array"),
    *("jobs", "submitted", "started"),
}
_ENDED = {"job", "array", "cancelled", "started_at", "ended_at"}
_COUNTS = ("cpus", "cpus_free", "nodes", "nodes_down", "nodes_drained")
_PARTITION = {*_COUNTS, "name", "up", "limit_s", "gpus", "gpus_free"}
_RESERVATION = {"name", "begin_at", "end_at", "partition", "nodes", "cpus", "maintenance"}
_PLAIN = (
    *("job", "submit_s", "start_s"),
    *("ended_job", "ended_array", "ended_cancelled", "ended_start_us", "ended_us"),
)
_FIELDS = {"running", "ended", "partitions", "reservations", "omitted"}


@dataclass(frozen=True, eq=False)
class RunningTable:
    """One element per job; shape: index into `shapes`. Times in seconds since 1970, NO_SECOND where unknown.

    shapes: user, group, partition, qos, cpus, nodes, gpus, limit_s, array of jobs that have all of these in common.
    partitions, reservations: as reported, with times in µs since 1970; None: not listed. n_omitted: jobs left out.
    """

    job: Sequence[str]
    shape: I8
    submit_s: I8
    start_s: I8
    shapes: Sequence[Mapping[str, Any]]
    ended_job: Sequence[str]
    ended_array: Sequence[str]
    ended_cancelled: np.ndarray[Any, np.dtype[np.bool_]]
    ended_start_us: I8
    ended_us: I8
    partitions: Sequence[Mapping[str, Any]] | None
    reservations: Sequence[Mapping[str, Any]] | None
    n_omitted: int

    def __len__(self) -> int:
        return len(self.job)


def read_running(document: Any) -> RunningTable:
    """Validate `queue_state` of an agent's report.

    Raises:
        Malformed: the first invalid field.
    """
    if not isinstance(document, dict) or not _FIELDS.issuperset(document):
        raise wrong("queue_state", f"must be an object with: {', '.join(sorted(_FIELDS))}")
    shapes: list[dict[str, Any]] = []
    jobs: list[str] = []
    shape_of: list[int] = []
    times: tuple[list[int], list[int]] = ([], [])
    for i, row in enumerate(_rows(document, "running", MOST_RUNNING_JOBS, _SHAPE) or ()):
        where = f"queue_state.running[{i}]"
        shapes.append(_shape(row, where))
        listed = _list(row.get("jobs"), f"{where}.jobs", MOST_RUNNING_JOBS - len(jobs))
        jobs += [text_of(each, f"{where}.jobs", 40, False) for each in listed]
        shape_of += [i] * len(listed)
        for column, name in zip(times, ("submitted", "started"), strict=True):
            seconds = _list(row.get(name), f"{where}.{name}", len(listed))
            if len(seconds) != len(listed):
                raise wrong(f"{where}.{name}", "must be as long as jobs")
            column += [_second(each, f"{where}.{name}") for each in seconds]
    ended = [_ended(row, i) for i, row in enumerate(_rows(document, "ended", MOST_ENDED_JOBS, _ENDED) or ())]
    partitions = _rows(document, "partitions", MOST_LISTED_PARTITIONS, _PARTITION)
    reservations = _rows(document, "reservations", MOST_RESERVATIONS, _RESERVATION)
    return RunningTable(
        job=jobs,
        shape=np.array(shape_of, np.int64),
        submit_s=np.array(times[0], np.int64),
        start_s=np.array(times[1], np.int64),
        shapes=shapes,
        ended_job=[row[0] for row in ended],
        ended_array=[row[1] for row in ended],
        ended_cancelled=np.array([row[2] for row in ended], np.bool_),
        ended_start_us=np.array([row[3] for row in ended], np.int64),
        ended_us=np.array([row[4] for row in ended], np.int64),
        partitions=None if partitions is None else [_partition(row, i) for i, row in enumerate(partitions)],
        reservations=None if reservations is None else [_reservation(row, i) for i, row in enumerate(reservations)],
        n_omitted=_count(document.get("omitted", 0), "queue_state.omitted"),
    )


def pack_running(table: RunningTable) -> tuple[bytes, str]:
    """Compress a table; returns the data and its digest."""
    columns: dict[str, Any] = {
        "shape": table.shape.astype(np.int32),
        **{name: getattr(table, name) for name in _PLAIN},
    }
    meta = {name: getattr(table, name) for name in ("shapes", "partitions", "reservations", "n_omitted")}
    return pack(columns, meta)


def unpack_running(listing: RunningListing) -> RunningTable:
    columns, meta = unpack(listing.data, listing.digest)
    return RunningTable(**{**columns, "shape": columns["shape"].astype(np.int64)}, **meta)


def _rows(document: Mapping[str, Any], name: str, most: int, fields: set[str]) -> list[dict[str, Any]] | None:
    value, where = document.get(name), f"queue_state.{name}"
    if value is None:
        return None
    rows = _list(value, where, most)
    for i, row in enumerate(rows):
        if not isinstance(row, dict) or not fields.issuperset(row):
            raise wrong(f"{where}[{i}]", f"must be an object with: {', '.join(sorted(fields))}")
    return rows


def _list(value: Any, where: str, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise wrong(where, f"must be a list of at most {most:,}")
    return value


def _shape(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    longest = {"user": 256, "group": 256, "partition": 1_024, "qos": 128, "array": 40}
    return {
        **{name: text_of(row.get(name, ""), f"{where}.{name}", most, name != "user") for name, most in longest.items()},
        **{name: _amount_or_none(row.get(name), f"{where}.{name}") for name in ("cpus", "nodes", "limit_s")},
        "gpus": gpus_of(row.get("gpus"), f"{where}.gpus"),
    }


def _ended(row: Mapping[str, Any], i: int) -> tuple[str, str, bool, int, int]:
    where = f"queue_state.ended[{i}]"
    return (
        text_of(row.get("job"), f"{where}.job", 40, False),
        text_of(row.get("array", ""), f"{where}.array", 40, True),
        _flag(row.get("cancelled"), f"{where}.cancelled"),
        instant_us(row.get("started_at"), f"{where}.started_at"),
        _time(row.get("ended_at"), f"{where}.ended_at"),
    )


def _partition(row: Mapping[str, Any], i: int) -> dict[str, Any]:
    where = f"queue_state.partitions[{i}]"
    return {
        "name": text_of(row.get("name"), f"{where}.name", 128, False),
        "up": _flag(row.get("up"), f"{where}.up"),
        "limit_s": _amount_or_none(row.get("limit_s"), f"{where}.limit_s"),
        **{name: _count(row.get(name), f"{where}.{name}") for name in _COUNTS},
        **{name: gpus_of(row.get(name), f"{where}.{name}") for name in ("gpus", "gpus_free")},
    }


def _reservation(row: Mapping[str, Any], i: int) -> dict[str, Any]:
    where = f"queue_state.reservations[{i}]"
    return {
        "name": text_of(row.get("name"), f"{where}.name", 128, False),
        "partition": text_of(row.get("partition", ""), f"{where}.partition", 128, True),
        "maintenance": _flag(row.get("maintenance"), f"{where}.maintenance"),
        **{name: _time(row.get(name), f"{where}.{name}") for name in ("begin_at", "end_at")},
        **{name: _amount_or_none(row.get(name), f"{where}.{name}") for name in ("nodes", "cpus")},
    }


def _time(value: Any, where: str) -> int:
    if value is None:
        raise wrong(where, "must be a time")
    return instant_us(value, where)


def _amount_or_none(value: Any, where: str) -> float | None:
    return None if value is None else amount(value, where)


def _count(value: Any, where: str) -> int:
    if type(value) is not int or not 0 <= value < 2**31:
        raise wrong(where, "must be a whole number from 0 on")
    return value


def _flag(value: Any, where: str) -> bool:
    if type(value) is not bool:
        raise wrong(where, "must be true or false")
    return value


def _second(value: Any, where: str) -> int:
    if value is None:
        return NO_SECOND
    if type(value) is not int or not 0 <= value <= _LATEST_S:
        raise wrong(where, "must be seconds since 1970, or null")
    return value
