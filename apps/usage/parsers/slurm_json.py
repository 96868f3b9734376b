"""Slurm's JSON documents of jobs, read job by job: what is common to accounting and to what waits or runs now."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import orjson

from apps.core.errors import Invalid, Unavailable
from apps.usage.parsers.base import (
    NO_TIME,
    JobClassKey,
    Parsed,
    RecordBatch,
    Rejection,
    Who,
    excerpt,
    text_column,
)
from apps.usage.parsers.json_items import MOST_ITEM_BYTES, Item, JsonItems
from apps.usage.parsers.sacct_columns import MOST_JOB, distinct, name_of
from apps.usage.parsers.slurm_jobs import Attempts, Jobs, settle
from apps.usage.parsers.slurm_values import BY_TIMES, Problems, Tres, epochs, number_of

_PIECE_JOBS = 5000
_PIECE_BYTES = 16 * 1024**2
_REMEDY = "Export the document again."
# slurm/slurm_errno.h: ESLURM_REST_EMPTY_RESULT; SLURM_COMMUNICATIONS_* and ESLURM_DB_CONNECTION; SLURM_ERROR, which
# 22.05 gives without any reason where the controller gave it no jobs.
_NOTHING_FOUND = 9003
_UNREACHABLE = (*range(1800, 1900), 7000)
_ERROR, _ASKS_CONTROLLER = -1, "slurm_load_"


class Told(NamedTuple):
    """One job of a document. Times are seconds since 1970; None: missing."""

    job: str
    cluster: str
    who: Who
    job_class: JobClassKey
    meaning: int | None
    submit_s: float | None
    start_s: float | None
    end_s: float | None
    elapsed_s: float | None
    got: Tres
    asked: Tres
    got_nothing: bool
    limit_s: float | None
    n_tasks: int


class Unfit(Exception):
    """A rejected job, with code and reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


ReadJob = Callable[[dict[str, Any]], Told]


def read_document(
    stream: BinaryIO, read_job: ReadJob, resume: Mapping[str, Any] | None, *, is_listing: bool
) -> Iterator[Parsed]:
    """The jobs of a document in pieces. The line of a rejection is the job's place in it, from 1.

    Raises:
        Invalid: it is no such document, Slurm says in it that something went wrong, or (a listing) it is cut off:
            jobs that a part of a listing doesn't name have not vanished.
    """
    cursor = dict(resume or {})
    attempts = Attempts(list(cursor.get("last", ())))
    stream.seek(cursor.get("offset", 0))
    items = JsonItems(stream, "jobs", offset=cursor.get("offset", 0), number=cursor.get("number", 0))
    held: list[Item] = []
    n_bytes = 0
    for item in items:
        if item.number == 1:
            _refuse_errors(items.others)
        held.append(item)
        n_bytes += len(item.data)
        if len(held) == _PIECE_JOBS or n_bytes > _PIECE_BYTES:
            yield _piece(held, read_job, attempts)
            held, n_bytes = [], 0
    _refuse_errors(items.others)
    if not items.was_found:
        raise Invalid(f'The document has no list "jobs". {items.problem}'.strip(), code="no_jobs")
    if items.problem and is_listing:
        raise Invalid(
            f"{items.problem} An incomplete listing doesn't show which jobs are gone: {_REMEDY}", code="cut_off"
        )
    last = _piece(held, read_job, attempts, cursor)
    if items.problem:
        number = int(last.resume["number"]) + 1
        why = f"{items.problem} Jobs from the {number}. on are not in it. {_REMEDY}"
        last.rejections.append(Rejection(number, "cut_off", why))
    if last.n_lines or last.rejections:
        yield last


def _refuse_errors(others: Mapping[str, Any]) -> None:
    """That no job was found is no error.

    Raises:
        Unavailable: the daemon that knows the jobs is down.
        Invalid: another error.
    """
    errors = others.get("errors")
    listed = errors if isinstance(errors, list) else []
    first = next((each for each in listed if _number_of(each) != _NOTHING_FOUND), None)
    if first is None:
        return
    told = (first.get("description") or first.get("error") or first) if isinstance(first, dict) else first
    if _is_unreachable(first):
        raise Unavailable(f"Slurm's daemon can't be reached: {excerpt(str(told))}.", code="slurm_unreachable")
    raise Invalid(f"Slurm says in it that something went wrong: {excerpt(str(told))}. Ask again.", code="source_error")


def _is_unreachable(error: Any) -> bool:
    number = _number_of(error)
    return number in _UNREACHABLE or (number == _ERROR and str(error.get("source")).startswith(_ASKS_CONTROLLER))


def _number_of(error: Any) -> float | None:
    return number_of(error.get("error_number")) if isinstance(error, dict) else None


def _piece(items: list[Item], read_job: ReadJob, attempts: Attempts, cursor: Mapping[str, Any] | None = None) -> Parsed:
    told: list[Told] = []
    places: list[int] = []
    rejections: list[Rejection] = []
    for item in items:
        try:
            told.append(read_job(_loaded(item)))
            places.append(item.number)
        except Unfit as unfit:
            rejections.append(Rejection(item.number, unfit.code, unfit.message, excerpt(item.data)))
    notes: dict[str, int] = {}
    batch = RecordBatch.from_rows([])
    if told:
        problems: Problems = {}
        batch = settle(_as_jobs(told, places, problems, notes), problems, notes)
        attempts.number(batch)
        for row, (code, why) in problems.items():
            rejections.append(Rejection(places[row], code, f"Job {told[row].job}: {why}"))
    rejections.sort(key=lambda rejection: rejection.line)
    offset = items[-1].end_offset if items else int((cursor or {}).get("offset", 0))
    number = items[-1].number if items else int((cursor or {}).get("number", 0))
    resume = {"offset": offset, "number": number, "last": attempts.last}
    return Parsed(batch, rejections, notes, resume, len(items), offset)


def _loaded(item: Item) -> dict[str, Any]:
    if not item.is_whole:
        megabytes = MOST_ITEM_BYTES // 1024**2
        raise Unfit(
            "job_too_long", f"The job's text is longer than {megabytes} MB (its steps?): use sacct -X -P for it."
        )
    try:
        value = orjson.loads(item.data)
    except orjson.JSONDecodeError as error:
        raise Unfit("bad_json", f"It is no JSON: {error.msg}. {_REMEDY}") from error
    if not isinstance(value, dict):
        raise Unfit("not_an_object", f"A job is a JSON object. {_REMEDY}")
    return value


def _as_jobs(told: Sequence[Told], places: list[int], problems: Problems, notes: dict[str, int]) -> Jobs:
    people, who = distinct([job.who for job in told])
    job_classes, job_class = distinct([job.job_class for job in told])
    n_unknown = sum(job.meaning is None for job in told)
    if n_unknown:
        notes["state_unknown"] = n_unknown
    elapsed = [NO_TIME if job.elapsed_s is None else int(min(job.elapsed_s, 1e11) * 1_000_000) for job in told]
    limits = [job.limit_s if job.limit_s else math.nan for job in told]
    return Jobs(
        line=np.asarray(places, np.int64),
        job=text_column([job.job for job in told]),
        array_task=np.zeros(len(told), "S1"),
        cluster=text_column([job.cluster for job in told]),
        meaning=np.asarray([BY_TIMES if job.meaning is None else job.meaning for job in told], np.int64),
        who=who,
        job_class=job_class,
        submit=epochs([job.submit_s for job in told]),
        start=epochs([job.start_s for job in told]),
        end=epochs([job.end_s for job in told]),
        elapsed_us=np.asarray(elapsed, np.int64),
        asked=np.array([job.asked for job in told], np.float64).reshape(-1, len(Tres())),
        got=np.array([job.got for job in told], np.float64).reshape(-1, len(Tres())),
        got_nothing=np.asarray([job.got_nothing for job in told], np.bool_),
        requested_s=np.asarray(limits, np.float64),
        n_tasks=np.asarray([job.n_tasks for job in told], np.int64),
        people=people,
        job_classes=job_classes,
    )


def seconds_of(name: str, value: Any) -> float | None:
    """A time or a duration of JSON; None where there is none.

    Raises:
        Unfit: it is another thing than a number.
    """
    number = number_of(value)
    if number is None and value is not None and not isinstance(value, dict):
        raise Unfit("bad_time", f"{name} is {excerpt(str(value))}: a number of seconds belongs there.")
    if number is not None and number < 0:
        raise Unfit("bad_time", f"{name} is {number:.0f}, below zero.")
    return number


def job_of(value: Any) -> str:
    number = number_of(value)
    if number is None or number < 1 or number != int(number):
        raise Unfit("bad_job", f"job_id is {excerpt(str(value))}: a whole number belongs there.")
    return str(int(number))


def text_of(name: str, value: Any, most: int = MOST_JOB) -> str:
    """A name; empty for null, and for the 0 that some versions write for none."""
    if not isinstance(value, str):
        return ""
    try:
        return name_of(name, value, most)
    except ValueError as error:
        raise Unfit("bad_text", str(error)) from error


def limit_of(value: Any) -> float | None:
    """A time limit in minutes as seconds."""
    minutes = number_of(value)
    return None if minutes is None else minutes * 60.0


def inner(job: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object within a job, empty where there is none."""
    value = job.get(name)
    return value if isinstance(value, dict) else {}
