"""Parse Grid Engine's running and pending jobs: `qstat -xml -u '*'`, with or without -ext, -urg, -pri, -r, -f.

A running job has a start and no submission time: it is identified by job, task and start, like in the accounting file,
whose line later replaces it. A pending array is one record for all its pending tasks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np
from django.utils.translation import gettext_noop

from apps.usage.parsers.base import NO_TIME, FieldNote, Parsed, Reading, RecordRow, concatenate_batches
from apps.usage.parsers.field_values import BadRecord, amount, checked, if_readable, shown
from apps.usage.parsers.instants import clock_s, iso
from apps.usage.parsers.lines import Notes
from apps.usage.parsers.xml_records import Node, XmlLimits, parse_xml

_HOST, _JOB_OF_LIST = "Queue-List", "job_list"
_RECORDS = frozenset({_HOST, _JOB_OF_LIST})
_LIMITS = XmlLimits(
    elements=1_000_000,
    characters=64 * 1024**2,
    kept=frozenset(
        (
            *(_JOB_OF_LIST, "name", "JB_job_number", "tasks", "JAT_start_time", "JB_submission_time", "slots"),
            *("JB_owner", "JB_project", "queue_name", "hard_request", "state"),
        )
    ),
)
_JOB = re.compile(r"\d{1,19}", re.ASCII)
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
_LONGEST_TASK_NAME = 64


class GridEngineQueue:
    """`qstat -xml`."""

    name = "gridengine-queue"
    label = gettext_noop("Grid Engine's running and waiting jobs (qstat -xml)")
    extensions: tuple[str, ...] = (".xml",)
    reference = "https://gridengine.eu/mangridengine/htmlman1/qstat.html"
    sample = """<?xml version='1.0'?>
<job_info>
  <queue_info><job_list state="running">
    <JB_job_number>102</JB_job_number><JB_name>fit</JB_name><JB_owner>ada</JB_owner><state>r</state>
    <JAT_start_time>2026-01-01T01:00:00</JAT_start_time><queue_name>all.q@node1</queue_name><slots>4</slots>
  </job_list></queue_info>
  <job_info><job_list state="pending">
    <JB_job_number>103</JB_job_number><JB_name>scan</JB_name><JB_owner>ben</JB_owner><state>qw</state>
    <JB_submission_time>2026-01-01T01:05:00</JB_submission_time><slots>1</slots><tasks>1-8:1</tasks>
  </job_list></job_info>
</job_info>
"""
    fields: tuple[FieldNote, ...] = (
        FieldNote("job_list state", gettext_noop("running or pending")),
        FieldNote("JB_job_number, tasks", gettext_noop("job, array_task")),
        FieldNote("JAT_start_time", gettext_noop("start; a running job is known by it")),
        FieldNote("JB_submission_time", gettext_noop("submit, of a waiting job")),
        FieldNote("slots", gettext_noop("cpus, over all hosts; of a waiting array, for all its waiting tasks")),
        FieldNote("JB_owner, JB_project", gettext_noop("user, project")),
        FieldNote("queue_name, else name of Queue-List", gettext_noop("queue, without the host")),
        FieldNote("hard_request h_rt", gettext_noop("requested_s (with -r)")),
    )
    needs_zone = True
    is_listing = True

    def sniff(self, head: bytes) -> bool:
        return b"<job_list" in head or (b"<job_info" in head and b"qstat" in head)

    def parse(self, stream: BinaryIO, reading: Reading, *, resume: Mapping[str, Any] | None = None) -> Iterator[Parsed]:
        """Parse jobs; each is rejected individually.

        Raises:
            Invalid: the XML has a document type or is not well-formed.
        """
        take = lambda element, notes: _rows(element, reading, notes)  # noqa: E731
        pieces = list(parse_xml(stream, _RECORDS, take, resume, listing="job_info", limits=_LIMITS))
        yield from [_joined(pieces)] if pieces else []


def _joined(pieces: list[Parsed]) -> Parsed:
    """The listing as one piece: a job on several hosts (`-f`), or with a row for each task of it (`-g t`), holds the
    sum of their slots.
    """
    batch = concatenate_batches([piece.batch for piece in pieces])
    key = list(zip(batch.job.tolist(), batch.array_task.tolist(), batch.start_us.tolist(), strict=True))
    places: dict[tuple[bytes, bytes, int], int] = {}
    first = np.array([places.setdefault(each, row) for row, each in enumerate(key)], np.int64)
    is_kept = (first == np.arange(len(key))) | (batch.start_us == NO_TIME)
    np.add.at(batch.cpus, first[~is_kept], batch.cpus[~is_kept])
    notes: Notes = Notes()
    for piece in pieces:
        notes.update(piece.notes)
    rejections = [rejection for piece in pieces for rejection in piece.rejections]
    last, n_lines = pieces[-1], sum(piece.n_lines for piece in pieces)
    return Parsed(batch.take(is_kept), rejections, dict(notes), last.resume, n_lines, last.offset)


def _rows(element: Node, reading: Reading, notes: Notes) -> list[RecordRow]:
    """The jobs of a host, or one job."""
    jobs = element.all(_JOB_OF_LIST) if element.name == _HOST else [element]
    running = [job for job in jobs if job.attributes.get("state") != "finished"]
    if len(running) < len(jobs):
        notes["ended_skipped"] += len(jobs) - len(running)
    queue = element.get("name") if element.name == _HOST else ""
    return [_row(job, queue, reading, notes) for job in running]


def _row(job: Node, queue: str, reading: Reading, notes: Notes) -> RecordRow:
    number = job.get("JB_job_number")
    if not _JOB.fullmatch(number):
        raise BadRecord("bad_job", f"JB_job_number is {shown(number)}, which is not a whole number.")
    is_running = bool(job.get("JAT_start_time"))
    stamp = "JAT_start_time" if is_running else "JB_submission_time"
    if not job.get(stamp):
        raise BadRecord("missing_field", "Neither JAT_start_time nor JB_submission_time is there.")
    at = iso(stamp, job.get(stamp), reading.zone)
    task, n_tasks = _tasks(job.get("tasks"))
    slots = amount("slots", job.get("slots") or "1")
    run_time = next(
        (request.text.strip() for request in job.all("hard_request") if request.attributes.get("name") == "h_rt"), ""
    )
    if is_running and "s" in job.get("state").lower():
        notes["suspended"] += 1
    return checked(
        RecordRow(
            job=number,
            array_task=task,
            user=job.get("JB_owner"),
            project=job.get("JB_project"),
            queue=(job.get("queue_name") or queue).partition("@")[0],
            state="running" if is_running else "pending",
            submit_at=at,
            start_at=at if is_running else None,
            cpus=slots * n_tasks,
            requested_s=if_readable(lambda: clock_s("h_rt", run_time), None, notes, "h_rt") if run_time else None,
        ),
        notes,
    )


def _tasks(text: str) -> tuple[str, int]:
    """Name and number of tasks: "3" is one task; "1-7:2,9" are five pending tasks under that name."""
    if not text:
        return "", 1
    n_tasks, first, last = 0, "", ""
    for part in text.split(","):
        form = _RANGE.fullmatch(part)
        if not form or form[3] == "0":
            raise BadRecord("bad_fields", f"tasks is {shown(text)}; tasks look like 3 or 1-8:1.")
        low, high, step = int(form[1]), int(form[2] or form[1]), int(form[3] or 1)
        n_tasks += max((high - low) // step + 1, 0)
        first, last = first or form[1], form[2] or form[1]
    name = text if len(text) <= _LONGEST_TASK_NAME else f"{first}-{last} ({n_tasks} tasks)"
    return name, n_tasks
