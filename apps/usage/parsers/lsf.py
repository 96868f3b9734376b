"""Parse LSF's accounting log, lsb.acct: lines of LSF 5.1 to 10.1, also mixed in one file.

- JOB_FINISH: a run is over, whatever its exit status. A run is known by job, array index and dispatch (startTime).
- JOB_RESIZE: the allocation of a running job changed. The line has what it held until then, and since when, so that
  each part of a resized job counts with its own hosts. JOB_FINISH has the last part.
- EVENT_ADRSV_FINISH: an advance reservation is over. Jobs within it have their own lines, so it is skipped.

A run without a resize is a record by its line. The lines of all others are events, from which ingestion makes the
records of their job, together with the lines of other files: see `runs`.

Usage is (event time − startTime) × slots. A suspended job keeps its slots in LSF, so that its rest counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, BinaryIO

from django.utils.translation import gettext_noop

from apps.usage.parsers.base import FieldNote, Parsed, Reading, RecordRow, RunEvent, microseconds
from apps.usage.parsers.field_values import BadRecord, checked, if_readable, note_ignored, number, shown, whole
from apps.usage.parsers.instants import epoch
from apps.usage.parsers.lines import Notes, Rows, SingleLines, parse_lines
from apps.usage.parsers.lsf_fields import Finish, Hosts, gpus_of, read_finish, read_hosts, split_line
from apps.usage.parsers.runs import NOTHING, TOLERANCE_S

_EVENT_TIME, _JOB, _OPTIONS, _ASKED, _SUBMITTED, _STARTED, _USER, _QUEUE = 2, 3, 5, 6, 7, 10, 11, 12
# Of a JOB_RESIZE line.
_R_TIME, _R_JOB, _R_INDEX, _R_STARTED, _R_USER, _R_TYPE, _R_SINCE, _R_HOSTS = 2, 3, 4, 5, 7, 8, 9, 10
_GROWN, _SHRUNK = "0", "1"
_EXCLUSIVE = 0x40  # bit of options: bsub -x
_NO_PROJECT = "default"
_NO_GROUPS = ("", "others", "default")  # keywords of lsb.queues for users whom no share names
_REQUEUED = ("10", "11")  # TERM_REQUEUE_OWNER, TERM_REQUEUE_ADMIN: it runs again
_KINDS = ("JOB_FINISH", "JOB_RESIZE", "EVENT_ADRSV_FINISH")
_TYPE = re.compile(r"[A-Z][A-Z0-9_]{2,39}", re.ASCII)
_WHOLE = re.compile(r"\d{1,19}", re.ASCII)
_SNIFFED = re.compile(rb'"(?:JOB_FINISH|JOB_RESIZE|EVENT_ADRSV_FINISH)" "?\d')


class Lsf:
    """LSF's lsb.acct."""

    name = "lsf"
    label = gettext_noop("LSF accounting log (lsb.acct)")
    extensions: tuple[str, ...] = ("lsb.acct",)
    reference = "https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=files-lsbacct"
    sample = (
        '"JOB_FINISH" "10.1" 1767229260 101 5001 33816578 16 1767225600 0 0 1767225660 "ada" "normal" '
        '"span[ptile=8]" "" "" "login1" "/home/ada" "" "out" "" "1767225600.101" 0 2 "8*node1" "8*node2" 64 60.0 '
        '"fit" "mpirun ./fit ""quick""" 57000.1 12.0 966960 0 -1 0 0 436 4 0 928 0 -1 0 0 0 19 2 -1 "" "cms" 0 16 '
        '"" "" 0 30720 0 "" "" "" "" 0 "" 0 "" -1 "/physics/ada" "" "" "" -1 "" "" 5136 "" 1767225660 "" "" 0 0 7200 0 '
        '2048 "select[type == any] " "" -1 "" -1 0 "" 0 0 "" 3600 "/home/ada" 0 "" 0.000000 0.00 0.00 0.00 0.00 2 '
        '"8*node1" "8*node2" -1 0 0 0\n'
    )
    fields: tuple[FieldNote, ...] = (
        FieldNote(
            "jobId, idx, submitTime, startTime", gettext_noop("job, array_task, submit: a run is known by these")
        ),
        FieldNote("startTime, event time", gettext_noop("start, end; start 0: it never ran")),
        FieldNote("allocSlots, else execHosts, else numProcessors", gettext_noop("cpus; nodes: different hosts")),
        FieldNote("JOB_RESIZE, lastResizeTime", gettext_noop("another allocation: a record for each part")),
        FieldNote(
            "ngpus_physical in effectiveResReq", gettext_noop("gpus, on each host or for each task (10.1 and later)")
        ),
        FieldNote("maxRMem", gettext_noop("mem_mb, the most it used")),
        FieldNote("runLimit", gettext_noop("requested_s (9.1 and later)")),
        FieldNote(
            "userName; chargedSAAP; projectName",
            gettext_noop("user; group, the last one of the share path; project, where it isn't default"),
        ),
        FieldNote("queue", gettext_noop("queue")),
        FieldNote("dstCluster", gettext_noop("withdrawn: another cluster ran it, whose own log counts it")),
        FieldNote("EVENT_ADRSV_FINISH", gettext_noop("a reservation: not counted beside its jobs")),
    )
    needs_zone = False
    is_listing = False

    def sniff(self, head: bytes) -> bool:
        lines = (line for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip())
        return bool(_SNIFFED.match(next((line for line in lines if not line.startswith(b"#")), b"")))

    def parse(self, stream: BinaryIO, reading: Reading, *, resume: Mapping[str, Any] | None = None) -> Iterator[Parsed]:
        """Parse lines; each is an event, rejected individually. A line may name every slot of a large job."""
        reader = _Reader()
        for parsed in parse_lines(stream, reader, resume):
            parsed.batch.are_runs, parsed.batch.events = True, tuple(reader.events)
            reader.events = []
            yield parsed


class _Reader(SingleLines):
    """Reads each line by itself. Events of the lines so far are in `events`, until they are taken."""

    def __init__(self) -> None:
        self.events: list[RunEvent] = []

    def take(self, text: str, line: int, notes: Notes) -> Rows:
        if text.startswith("#"):
            return []
        fields = split_line(text)
        event = fields[0]
        if event not in _KINDS:
            if not (_TYPE.fullmatch(event) and text.lstrip().startswith('"')):
                raise BadRecord("unknown_type", f'The line begins with {shown(event)}; lines begin like "JOB_FINISH".')
            notes["other_events_skipped"] += 1
            return []
        if event == "EVENT_ADRSV_FINISH":
            notes["reservations_skipped"] += 1
            return []
        if event == "JOB_RESIZE":
            self._resized(fields, line, notes)
            return []
        row = self._finished(fields, line, notes)
        return [(line, row)] if row is not None else []

    def _finished(self, fields: Sequence[str], line: int, notes: Notes) -> RecordRow | None:
        """The record of a run that wasn't resized; of others the events."""
        if len(fields) <= _QUEUE:
            raise BadRecord(
                "too_few_fields", f"The line has {len(fields)} fields: it is cut off. Import the whole file."
            )
        finish = read_finish(fields, notes)
        row = _run(fields, finish, notes)
        if row.start_at is None or row.end_at is None:
            return row
        since_at = _last_resize(finish, row.start_at, row.end_at, notes)
        if since_at <= row.start_at:
            return row
        notes["allocation_changes"] += 1
        end_us, held_s = microseconds(row.end_at), (row.end_at - since_at).total_seconds()
        end = RunEvent("end", row.job, row.array_task, end_us, line, NOTHING, row)
        self.events += [end, end._replace(kind="part", walltime_s=held_s)]
        return None

    def _resized(self, fields: Sequence[str], line: int, notes: Notes) -> None:
        """What a run held until it was resized, and what it holds from then on."""
        if len(fields) <= _R_HOSTS:
            raise BadRecord(
                "too_few_fields", f"The line has {len(fields)} fields: it is cut off. Import the whole file."
            )
        at = _time("Event time", fields[_R_TIME])
        start_at = _time("startTime", fields[_R_STARTED])
        since_at = _time("lastResizeTime", fields[_R_SINCE])
        if not start_at <= since_at <= at:
            message = f"lastResizeTime is {shown(fields[_R_SINCE])}, not between startTime and the time of the line."
            raise BadRecord("end_before_start", message)
        before, behind = read_hosts(fields, _R_HOSTS, "numExecHosts")
        changed, behind = read_hosts(fields, behind, "numResizeHosts")
        if behind < len(fields):  # 10.1 and later name the allocated slots too
            slots = if_readable(
                lambda: _slots_of_resize(fields, behind), (Hosts(0.0, 0), Hosts(0.0, 0)), notes, "slots"
            )
            before, changed = (
                slot if slot.n_slots else task for slot, task in zip(slots, (before, changed), strict=True)
            )
        row = checked(
            RecordRow(
                job=_job(fields[_R_JOB]),
                array_task=_task(fields[_R_INDEX]),
                user=fields[_R_USER],
                state="running",
                submit_at=start_at,
                start_at=start_at,
                cpus=before.n_slots,
                nodes=float(before.n_hosts),
            ),
            notes,
        )
        held_s = (at - since_at).total_seconds()
        part = RunEvent("part", row.job, row.array_task, microseconds(at), line, NOTHING, row, held_s)
        self.events.append(part)
        if fields[_R_TYPE] in (_GROWN, _SHRUNK):
            sign = 1 if fields[_R_TYPE] == _GROWN else -1
            left = row._replace(cpus=max(before.n_slots + sign * changed.n_slots, 0.0), nodes=0.0)
            self.events.append(part._replace(kind="change", row=left, walltime_s=None))
        else:
            note_ignored(notes, "resizeType")


def _slots_of_resize(fields: Sequence[str], at: int) -> tuple[Hosts, Hosts]:
    held, behind = read_hosts(fields, at, "numAllocSlots")
    return held, read_hosts(fields, behind, "numResizeSlots")[0]


def _run(fields: Sequence[str], finish: Finish, notes: Notes) -> RecordRow:
    """The run of a JOB_FINISH line as one record, with its last allocation."""
    start_at = epoch("startTime", fields[_STARTED])
    submit_at = if_readable(lambda: epoch("submitTime", fields[_SUBMITTED]), None, notes, "submitTime")
    submit_at = submit_at if start_at is None or submit_at is None else min(submit_at, start_at)
    if submit_at is None and start_at is None:
        raise BadRecord("missing_field", "Neither submitTime nor startTime is known.")
    if finish.is_elsewhere:
        notes["ran_elsewhere"] += 1
        submit_at, start_at = submit_at or start_at, None
    elif start_at is None:
        notes["never_ran"] += 1
    _note_oddities(fields, finish, start_at, notes)
    slots = finish.allocated.n_slots or finish.executed.n_slots
    if not slots and start_at is not None:
        slots = _asked_slots(fields)
        notes["processors_requested"] += 1
    return checked(
        RecordRow(
            job=_job(fields[_JOB]),
            array_task=_task(finish.task),
            user=fields[_USER],
            group=_group(finish, fields[_USER]),
            project="" if finish.project == _NO_PROJECT else finish.project,
            queue=fields[_QUEUE],
            state="finished" if start_at is not None else "withdrawn",
            submit_at=submit_at or start_at,
            start_at=start_at,
            end_at=_time("Event time", fields[_EVENT_TIME]) if start_at is not None else None,
            cpus=slots if start_at is not None else 0.0,
            gpus=gpus_of(finish, notes) if start_at is not None else 0.0,
            nodes=float(finish.executed.n_hosts or finish.allocated.n_hosts) if start_at is not None else 0.0,
            mem_mb=if_readable(lambda: max(number("maxRMem", finish.mem_kb or "0"), 0.0) / 1024, 0.0, notes, "maxRMem"),
            requested_s=finish.run_limit_s,
        ),
        notes,
    )


def _note_oddities(fields: Sequence[str], finish: Finish, start_at: datetime | None, notes: Notes) -> None:
    """Count what a reader of the import should know, although it changes no record."""
    options = if_readable(lambda: whole("options", fields[_OPTIONS]), 0, notes, "options")
    notes["exclusive_jobs"] += bool(options & _EXCLUSIVE and start_at is not None)
    notes["rescheduled"] += finish.exit_info in _REQUEUED
    if finish.run_s is None or start_at is None:
        return
    rested_s = (_time("Event time", fields[_EVENT_TIME]) - start_at).total_seconds() - finish.run_s
    notes["suspended"] += rested_s > TOLERANCE_S


def _last_resize(finish: Finish, start_at: datetime, end_at: datetime, notes: Notes) -> datetime:
    """Since when a run had its last allocation: its start, unless it was resized."""
    since_at = if_readable(lambda: epoch("lastResizeTime", finish.last_resize or "0"), None, notes, "lastResizeTime")
    if since_at is None:
        return start_at
    if since_at > end_at:
        note_ignored(notes, "lastResizeTime")
        return start_at
    return since_at


def _asked_slots(fields: Sequence[str]) -> float:
    asked = whole("numProcessors", fields[_ASKED])
    if asked <= 0:
        raise BadRecord("no_processors", "The line names no execution host, and numProcessors is not above 0.")
    return float(asked)


def _group(finish: Finish, user: str) -> str:
    """The user group that was charged: the last one of the share path /a/b/user."""
    path = [part.partition("*")[0] for part in finish.saap.split("/")]
    groups = [part for part in path if part not in _NO_GROUPS]
    if groups and groups[-1] == user:
        groups.pop()
    return groups[-1] if groups else ""


def _job(text: str) -> str:
    if not _WHOLE.fullmatch(text):
        raise BadRecord("bad_job", f"jobId is {shown(text)}, which is not a whole number.")
    return text


def _task(text: str) -> str:
    index = whole("idx", text)
    if index < 0:
        raise BadRecord("negative_number", f"idx is {index}, below zero.")
    return str(index) if index else ""


def _time(name: str, text: str) -> datetime:
    at = epoch(name, text)
    if at is None:
        raise BadRecord("missing_field", f"{name} is 0: the line is damaged, or of another format.")
    return at
