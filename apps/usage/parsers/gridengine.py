"""Parse Grid Engine's accounting(5): SGE, its forks, and Univa's with timestamps in milliseconds.

One colon-separated line for each run of a job or array task. Usage is (end − start) × slots. A run is identified by
job, task and start. The listing of running jobs (qstat) has no submission time, so neither format uses it, and the runs
of a rescheduled job, which have the same number, stay separate. Lines of slave tasks are parts of a parallel job whose
own line has all slots: they are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

from django.utils.translation import gettext_noop

from apps.usage.parsers.base import MOST_MEM_MB, FieldNote, Parsed, Reading, RecordRow
from apps.usage.parsers.field_values import NUMBER, BadRecord, amount, checked, note_ignored, shown, whole
from apps.usage.parsers.instants import epoch
from apps.usage.parsers.lines import Notes, Rows, SingleLines, parse_lines

QUEUE, GROUP, OWNER, NAME, JOB, SUBMITTED, STARTED, ENDED = 0, 2, 3, 4, 5, 8, 9, 10
FAILED, PROJECT, PE, SLOTS, TASK, CATEGORY = 11, 31, 33, 34, 35, 39
_LEAST_FIELDS = 43  # SGE 6.0; later versions add arid and ar_submission_time, and vendors more
_MOST_FIELDS = 4000
_MOST_COLONS_IN_NAME = 16
_RESCHEDULED = ("24", "25")  # migrated, rescheduled: the job runs again later
_PE_TASK = re.compile(r"NONE|\d{1,9}\.[A-Za-z][\w.-]{0,255}", re.ASCII)
_WHOLE = re.compile(r"\d{1,19}", re.ASCII)
_GPU = re.compile(r"(?:^|[ ,])(?:n?gpus?|nvidia_gpu|gpu_card)=(?!0(?:[ ,]|$))")


class GridEngine:
    """Grid Engine's accounting file."""

    name = "gridengine"
    label = gettext_noop("Grid Engine accounting file")
    extensions: tuple[str, ...] = ("accounting",)
    reference = "https://gridengine.eu/mangridengine/htmlman5/accounting.html"
    sample = (
        "# Version: 8.1.9\n"
        "all.q:node1:physics:ada:fit:101:sge:0:1767225600:1767225660:1767229260:0:0:3600:3590.1:2.2:4620.0:0:0:0:0:480"
        ":0:0:0.0:8:0:0:0:6:24:cms:defaultdepartment:smp:4:0:3592.3:0.5:0.0:-pe smp 4:0.0:NONE:30171136.0:0:0\n"
    )
    fields: tuple[FieldNote, ...] = (
        FieldNote("job_number, task_number, start_time", gettext_noop("job, array_task: a run is known by these")),
        FieldNote(
            "start_time, end_time", gettext_noop("start, end; seconds or (Univa) milliseconds; start 0: it never ran")
        ),
        FieldNote("slots", gettext_noop("cpus")),
        FieldNote("maxvmem", gettext_noop("mem_mb, the most it used")),
        FieldNote("owner, group, project", gettext_noop("user, group, project; NONE is no project")),
        FieldNote("qname", gettext_noop("queue")),
        FieldNote("pe_taskid, or submission_time 0", gettext_noop("a slave task: not counted beside its job")),
        FieldNote("failed", gettext_noop("counted nevertheless; 24 and 25 were rescheduled and run again")),
    )
    needs_zone = False
    is_listing = False

    def sniff(self, head: bytes) -> bool:
        lines = [line for line in head.split(b"\n") if line.strip() and not line.startswith(b"#")]
        if not lines or lines[0].count(b":") < _LEAST_FIELDS - 1:
            return False
        return _shift(lines[0].decode("utf-8", "replace").split(":")) is not None

    def parse(self, stream: BinaryIO, reading: Reading, *, resume: Mapping[str, Any] | None = None) -> Iterator[Parsed]:
        """Parse lines; each is one run of a job, rejected individually."""
        return parse_lines(stream, _Reader(), resume)


class _Reader(SingleLines):
    def take(self, text: str, line: int, notes: Notes) -> Rows:
        if text.startswith("#"):
            return []
        row = _row(_fields(text), notes)
        return [(line, row)] if row else []


def _fields(text: str) -> list[str]:
    """Split a line into its fields, also if the job's name contains colons."""
    fields = text.split(":", _MOST_FIELDS)
    if len(fields) < _LEAST_FIELDS:
        message = f"{len(fields)} of {_LEAST_FIELDS} fields: the line is cut off, or of another format."
        raise BadRecord("too_few_fields", message)
    shift = _shift(fields) or 0
    if shift:
        fields[NAME : NAME + shift + 1] = [":".join(fields[NAME : NAME + shift + 1])]
    if not _WHOLE.fullmatch(fields[JOB]):
        raise BadRecord(
            "bad_job", f"Field {JOB + 1} (job_number) is {shown(fields[JOB])}, which is not a whole number."
        )
    return fields


def _shift(fields: list[str]) -> int | None:
    """Number of extra colons in the job's name: numeric fields and the name of the PE locate the fields."""
    for shift in range(min(_MOST_COLONS_IN_NAME, len(fields) - _LEAST_FIELDS) + 1):
        numbers = (JOB, SUBMITTED, STARTED, ENDED, FAILED, SLOTS)
        if all(_WHOLE.fullmatch(fields[i + shift]) for i in numbers) and not NUMBER.fullmatch(fields[PE + shift]):
            return shift
    return None


class Run(NamedTuple):
    """A run as accounting records it, values as text; empty or NONE where there is none."""

    job: str
    task: str
    owner: str
    group: str
    project: str
    queue: str
    submitted: str
    started: str
    ended: str
    slots: str
    pe: str
    pe_task: str
    category: str
    failed: str
    maxvmem: str


def row_of(run: Run, notes: Notes) -> RecordRow | None:
    """The record of a run; None for a slave task, which is part of its job's run.

    Raises:
        BadRecord: a value that usage depends on is missing or invalid.
    """
    started = epoch("start_time", run.started, finer=True)
    try:
        submitted = epoch("submission_time", run.submitted, finer=True)
    except BadRecord:
        if started is None:
            raise
        note_ignored(notes, "submission_time")
        submitted = started
    if _named(run.pe_task) or submitted is None:
        notes["slave_tasks_skipped"] += 1
        return None
    ended = epoch("end_time", run.ended, finer=True) if started else None
    slots = amount("slots", run.slots)
    if _GPU.search(run.category):
        notes["gpu_requests_not_counted"] += 1
    if run.failed in _RESCHEDULED:
        notes["rescheduled"] += 1
    if started is None:
        notes["never_ran"] += 1
    return checked(
        RecordRow(
            job=run.job,
            array_task="" if run.task in ("0", "undefined", "NONE", "") else str(whole("task_number", run.task)),
            user=run.owner,
            group=run.group,
            project=_named(run.project),
            queue=run.queue,
            state="finished" if started else "withdrawn",
            submit_at=started or submitted,
            start_at=started,
            end_at=ended,
            cpus=slots,
            nodes=1.0 if _named(run.pe) == "" else 0.0,
            mem_mb=_mem_mb(run.maxvmem, notes),
        ),
        notes,
    )


def _row(fields: list[str], notes: Notes) -> RecordRow | None:
    pe_task, maxvmem = _behind_category(fields)
    run = Run(
        job=fields[JOB],
        task=fields[TASK],
        owner=fields[OWNER],
        group=fields[GROUP],
        project=fields[PROJECT],
        queue=fields[QUEUE],
        submitted=fields[SUBMITTED],
        started=fields[STARTED],
        ended=fields[ENDED],
        slots=fields[SLOTS],
        pe=fields[PE],
        pe_task=pe_task,
        category=fields[CATEGORY],
        failed=fields[FAILED],
        maxvmem=maxvmem,
    )
    return row_of(run, notes)


def _behind_category(fields: list[str]) -> tuple[str, str]:
    """The fields pe_taskid and maxvmem. The category before them may contain colons, so `iow` between them locates
    them.
    """
    places = range(CATEGORY + 1, len(fields) - 2)
    iow = next((place for place in places if _is_iow(fields[place : place + 3])), None)
    if iow is None:  # iow or maxvmem can't be read
        iow = next((place for place in places if _PE_TASK.fullmatch(fields[place + 1])), None)
    if iow is not None:
        fields[CATEGORY:iow] = [":".join(fields[CATEGORY:iow])]
        return fields[CATEGORY + 2], fields[CATEGORY + 3]
    raise BadRecord("bad_fields", "The fields iow, pe_taskid and maxvmem are missing after the category.")


def _is_iow(fields: list[str]) -> bool:
    iow, pe_task, maxvmem = fields
    return bool(NUMBER.fullmatch(iow) and NUMBER.fullmatch(maxvmem)) and not NUMBER.fullmatch(pe_task)


def _mem_mb(maxvmem: str, notes: Notes) -> float:
    value = float(maxvmem) if NUMBER.fullmatch(maxvmem) else -1.0
    if not 0 <= value <= MOST_MEM_MB * 1024**2:
        note_ignored(notes, "maxvmem")
        return 0.0
    return value / 1024**2


def _named(text: str) -> str:
    return "" if text == "NONE" else text
