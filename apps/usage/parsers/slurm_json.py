"""Read Slurm's JSON documents job by job: the common part of accounting and of running and pending jobs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import orjson

from apps.core.errors import Invalid, Unavailable
from apps.core.resource_kinds import KindColumn, Kinds
from apps.usage.parsers.base import (
    NO_TIME,
    AccountNames,
    JobClassKey,
    Parsed,
    RecordBatch,
    Rejection,
    excerpt,
    text_column,
)
from apps.usage.parsers.field_values import note_ignored
from apps.usage.parsers.json_items import MOST_ITEM_BYTES, Item, JsonItems
from apps.usage.parsers.sacct_columns import MOST_JOB, distinct, name_of
from apps.usage.parsers.slurm_jobs import Jobs, to_records
from apps.usage.parsers.slurm_states import BY_TIMES, NEVER_RAN, RUNNING_NOW, WAITING
from apps.usage.parsers.slurm_values import WCKEYS, Problems, Tres, epochs, is_no_value, number_of

_PIECE_JOBS = 5000
_PIECE_BYTES = 16 * 1024**2
_REMEDY = "Export the document again."
# A document with errors may lack the jobs.
_JOBS_OR_ERRORS = re.compile(rb'"jobs"\s*:\s*\[|"errors"\s*:\s*\[\s*\{')
# slurm/slurm_errno.h: ESLURM_REST_EMPTY_RESULT; SLURM_COMMUNICATIONS_* and ESLURM_DB_CONNECTION; SLURM_ERROR, which
# 22.05 returns without a reason if the controller returned no jobs.
_NOTHING_FOUND = 9003
_UNREACHABLE = (*range(1800, 1900), 7000)
_ERROR, _ASKS_CONTROLLER = -1, "slurm_load_"


class JsonJob(NamedTuple):
    """A job of a document. Times are seconds since 1970, None if missing."""

    job: str
    cluster: str
    who: AccountNames
    job_class: JobClassKey
    meaning: int | None
    submit_s: float | None
    eligible_s: float | None
    start_s: float | None
    end_s: float | None
    elapsed_s: float | None
    allocated: Tres
    requested: Tres
    allocated_kinds: Kinds
    requested_kinds: Kinds
    exact_billing: float
    has_no_allocation: bool
    limit_s: float | None
    n_tasks: int
    is_nameless: bool
    original_sluid: int
    row_sluid: int
    has_wckey: bool
    ignored: tuple[str, ...]  # names of values that usage doesn't need, and that can't be read


class RejectedJob(Exception):
    """A rejected job, with code and reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


ReadJob = Callable[[dict[str, Any]], JsonJob]


def has_job_list(head: bytes) -> bool:
    """Whether a file starts like a JSON object with a list of jobs or errors of Slurm."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return start.startswith(b"{") and bool(_JOBS_OR_ERRORS.search(head))


def read_document(
    stream: BinaryIO, read_job: ReadJob, resume: Mapping[str, Any] | None, *, is_listing: bool
) -> Iterator[Parsed]:
    """Parse the jobs of a document in pieces. The line of a rejection is the job's number in the document, from 1.

    Raises:
        Invalid: it is not such a document, contains an error of Slurm, or is an incomplete listing: jobs missing in it
        have not vanished.
    """
    cursor = dict(resume or {})
    stream.seek(cursor.get("offset", 0))
    items = JsonItems(stream, "jobs", offset=cursor.get("offset", 0), number=cursor.get("number", 0))
    piece_of = partial(_piece, read_job=read_job, are_live=is_listing)
    held: list[Item] = []
    n_bytes = 0
    for item in items:
        if item.number == 1:
            _refuse_errors(items.others)
        held.append(item)
        n_bytes += len(item.data)
        if len(held) == _PIECE_JOBS or n_bytes > _PIECE_BYTES:
            yield piece_of(held)
            held, n_bytes = [], 0
    _refuse_errors(items.others)
    if not items.was_found:
        raise Invalid(f'The document has no list "jobs". {items.problem}'.strip(), code="no_jobs")
    if items.problem and is_listing:
        raise Invalid(
            f"{items.problem} An incomplete listing doesn't show which jobs are gone: {_REMEDY}", code="cut_off"
        )
    last = piece_of(held, cursor=cursor)
    if items.problem:
        number = int(last.resume["number"]) + 1
        why = f"{items.problem} Jobs from the {number}. on are not in it. {_REMEDY}"
        last.rejections.append(Rejection(number, "cut_off", why))
    if last.n_lines or last.rejections:
        yield last


def _refuse_errors(others: Mapping[str, Any]) -> None:
    """Check the errors of the document; "nothing found" is not an error.

    Raises:
        Unavailable: the daemon that knows the jobs is down.
        Invalid: another error.
    """
    errors = others.get("errors")
    listed = errors if isinstance(errors, list) else []
    first = next((each for each in listed if _number_of(each) != _NOTHING_FOUND), None)
    if first is None:
        return
    message = (first.get("description") or first.get("error") or first) if isinstance(first, dict) else first
    number = _number_of(first)
    if number in _UNREACHABLE or (number == _ERROR and str(first.get("source")).startswith(_ASKS_CONTROLLER)):
        raise Unavailable(f"Slurm's daemon can't be reached: {excerpt(str(message))}.", code="slurm_unreachable")
    raise Invalid(f"Slurm reports an error in it: {excerpt(str(message))}. Request it again.", code="source_error")


def _number_of(error: Any) -> float | None:
    return number_of(error.get("error_number")) if isinstance(error, dict) else None


def _piece(
    items: list[Item],
    *,
    read_job: ReadJob,
    are_live: bool,
    cursor: Mapping[str, Any] | None = None,
) -> Parsed:
    jobs: list[JsonJob] = []
    numbers: list[int] = []
    rejections: list[Rejection] = []
    for item in items:
        try:
            jobs.append(read_job(_loaded(item)))
            numbers.append(item.number)
        except RejectedJob as rejected:
            rejections.append(Rejection(item.number, rejected.code, rejected.message, excerpt(item.data)))
    notes: dict[str, int] = {}
    batch = RecordBatch.from_rows([])
    if jobs:
        problems: Problems = {}
        batch = to_records(_as_jobs(jobs, numbers, problems, notes, are_live=are_live), problems, notes)
        for row, (code, why) in problems.items():
            rejections.append(Rejection(numbers[row], code, f"Job {jobs[row].job}: {why}"))
    rejections.sort(key=lambda rejection: rejection.line)
    offset = items[-1].end_offset if items else int((cursor or {}).get("offset", 0))
    number = items[-1].number if items else int((cursor or {}).get("number", 0))
    resume = {"offset": offset, "number": number}
    return Parsed(batch, rejections, notes, resume, len(items), offset)


def _loaded(item: Item) -> dict[str, Any]:
    if not item.is_whole:
        megabytes = MOST_ITEM_BYTES // 1024**2
        raise RejectedJob(
            "job_too_long", f"The job's text is longer than {megabytes} MB (its steps?): use sacct -X -P for it."
        )
    try:
        value = orjson.loads(item.data)
    except orjson.JSONDecodeError as error:
        raise RejectedJob("bad_json", f"It is not JSON: {error.msg}. {_REMEDY}") from error
    if not isinstance(value, dict):
        raise RejectedJob("not_an_object", f"A job is a JSON object. {_REMEDY}")
    return value


def _as_jobs(
    jobs: Sequence[JsonJob], numbers: list[int], problems: Problems, notes: dict[str, int], *, are_live: bool
) -> Jobs:
    people, who = distinct([job.who for job in jobs])
    job_classes, job_class = distinct([job.job_class for job in jobs])
    n_unknown = sum(job.meaning is None for job in jobs)
    if n_unknown:
        notes["state_unknown"] = n_unknown
    n_keyed = sum(job.has_wckey for job in jobs)
    if n_keyed:
        notes[WCKEYS] = n_keyed
    for job in jobs:
        for name in job.ignored:
            note_ignored(notes, name)
    elapsed = [NO_TIME if job.elapsed_s is None else int(min(job.elapsed_s, 1e11) * 1_000_000) for job in jobs]
    limits = [job.limit_s if job.limit_s else math.nan for job in jobs]
    kinds = KindColumn()
    return Jobs(
        line=np.asarray(numbers, np.int64),
        job=text_column([job.job for job in jobs]),
        array_task=np.zeros(len(jobs), "S1"),
        cluster=text_column([job.cluster for job in jobs]),
        meaning=np.asarray([BY_TIMES if job.meaning is None else job.meaning for job in jobs], np.int64),
        who=who,
        job_class=job_class,
        submit=epochs([job.submit_s for job in jobs]),
        eligible=epochs([job.eligible_s for job in jobs]),
        start=epochs([job.start_s for job in jobs]),
        end=epochs([job.end_s for job in jobs]),
        elapsed_us=np.asarray(elapsed, np.int64),
        requested=np.array([job.requested for job in jobs], np.float64).reshape(-1, len(Tres())),
        allocated=np.array([job.allocated for job in jobs], np.float64).reshape(-1, len(Tres())),
        requested_kind=np.array([kinds.place_of(job.requested_kinds) for job in jobs], np.int64),
        allocated_kind=np.array([kinds.place_of(job.allocated_kinds) for job in jobs], np.int64),
        exact_billing=np.array([job.exact_billing for job in jobs], np.float64),
        has_no_allocation=np.asarray([job.has_no_allocation for job in jobs], np.bool_),
        requested_s=np.asarray(limits, np.float64),
        n_tasks=np.asarray([job.n_tasks for job in jobs], np.int64),
        people=people,
        job_classes=job_classes,
        kinds=kinds.distinct,
        is_nameless=np.asarray([job.is_nameless for job in jobs], np.bool_),
        original_sluid=np.asarray([job.original_sluid for job in jobs], np.int64),
        row_sluid=np.asarray([job.row_sluid for job in jobs], np.int64),
        are_live=are_live,
    )


def seconds_of(name: str, value: Any, *, is_needed: bool = True) -> float | None:
    """A time or duration in seconds; None if missing, or unreadable where it isn't needed.

    Raises:
        RejectedJob: it is needed, and is not a number, or negative.
    """
    number = number_of(value)
    if number is None and (value is None or isinstance(value, dict) or is_no_value(value)):
        return None
    if number is not None and number >= 0:
        return number
    if not is_needed:
        return None
    if number is None:
        raise RejectedJob("bad_time", f"{name} is {excerpt(str(value))}: it must be a number of seconds.")
    raise RejectedJob("bad_time", f"{name} is {number:.0f}, below zero.")


class TimesNeeded(NamedTuple):
    """Which times the usage of a job depends on, by the meaning of its state."""

    start: bool
    end: bool


def times_needed(meaning: int | None) -> TimesNeeded:
    runs_or_ran = meaning not in (WAITING, NEVER_RAN)
    return TimesNeeded(start=runs_or_ran, end=runs_or_ran and meaning != RUNNING_NOW)


def job_of(value: Any) -> str:
    number = number_of(value)
    if number is None or number < 1 or number != int(number):
        raise RejectedJob("bad_job", f"job_id is {excerpt(str(value))}: it must be a whole number.")
    return str(int(number))


def text_of(name: str, value: Any, most: int = MOST_JOB) -> str:
    """A name; empty for null and for numbers, because some versions write 0 for none."""
    if not isinstance(value, str):
        return ""
    try:
        return name_of(name, value, most)
    except ValueError as error:
        raise RejectedJob("bad_text", str(error)) from error


class ReadNames:
    """Reads names of a job that usage doesn't need; `ignored` are those that can't be stored."""

    def __init__(self) -> None:
        self.ignored: list[str] = []

    def read(self, name: str, value: Any) -> str:
        try:
            return text_of(name, value)
        except RejectedJob:
            self.ignored.append(name)
            return ""


def is_unreadable(value: Any) -> bool:
    """Whether a value is there and is no number from 0 on. Null and Slurm's numbers for none can be read."""
    number = number_of(value)
    if number is None:
        return not (value is None or isinstance(value, dict) or is_no_value(value))
    return number < 0


def number_or_nan(value: Any) -> float:
    """A number of JSON; NaN if missing or negative."""
    number = number_of(value)
    return math.nan if number is None or number < 0 else number


def limit_of(value: Any) -> float | None:
    """A time limit in minutes, converted to seconds."""
    minutes = number_of(value)
    return None if minutes is None else minutes * 60.0


def inner(job: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A nested object, empty if missing."""
    value = job.get(name)
    return value if isinstance(value, dict) else {}
