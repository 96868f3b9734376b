"""Parse accounting logs of OpenPBS, PBS Professional and Torque.

Lines are `MM/DD/YYYY HH:MM:SS;TYPE;ID;key=value …`, split at most three times, since values may contain semicolons.
They are events of runs. A run is known by its job and start; what it used is what it held, part by part:

- Q, S: queued, started. E, R: ended; ended and will be repeated. D, A: deleted, aborted, mostly before an E.
- M: moved to another server, which logs what follows.
- z, r: suspended, resumed (OpenPBS); the server gave its resources to others meanwhile.
- u, c, e: the end of a phase, the next one, the end of the last one. s: pruned at its start. The E line then has the
  first allocation. T: restarted from a checkpoint. a: what the job asks for was changed.

Lines are read one by one. Those that are a record of their own are rows: Q, S, and the E of a first run. All others are
events, from which ingestion makes the records of their job, together with the lines of other files: see `runs`.

Epochs in fields are preferred to the local time at the start of the line, which is used where no field has the time. It
needs the source's zone, or lines that have both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO
from zoneinfo import ZoneInfo

from django.utils.translation import gettext_noop

from apps.core.local_time import is_repeated
from apps.usage.parsers.base import (
    MOST_RESTART,
    FieldNote,
    Parsed,
    Rates,
    Reading,
    RecordRow,
    RunEvent,
    microseconds,
)
from apps.usage.parsers.field_values import BadRecord, checked, if_readable, shown, whole
from apps.usage.parsers.instants import clock_s, epoch, local
from apps.usage.parsers.lines import Notes, Rows, SingleLines, parse_lines
from apps.usage.parsers.pbs_fields import allocated, kinds_of, released, split_fields
from apps.usage.parsers.runs import NOTHING, TOLERANCE_S, as_json, from_json

_MOST_UNTIMED = 1_000
_HEAD = re.compile(r"(\d\d)/(\d\d)/(\d{4}) (\d\d):(\d\d):(\d\d)", re.ASCII)
_TYPE = re.compile(r"[A-Za-z]", re.ASCII)
_ID = re.compile(r"\d+(?:\[\d*\])?(?:-\d+)?(?:\.[^\s;]*)?", re.ASCII)
_TASK = re.compile(r"(\d+)(?:\[(\d*)\]|-(\d+))(.*)", re.ASCII)
_KINDS = {
    **{
        "R": "stop",
        "C": "stop",
        "D": "gone",
        "A": "gone",
        "M": "gone",
        "z": "rest",
        "r": "resume",
        "u": "phase",
        "e": "phase",
    },
    **{"c": "change", "s": "change", "T": "again", "a": "ask"},
}
_EVENTS = frozenset("QSE").union(_KINDS)
_CPU_REQUESTS = tuple(f"Resource_List.{name}" for name in ("ncpus", "nodes", "select", "procs"))
_HELD = "Checkpointed and held"  # Torque's C line of a job that gives its nodes back
_SNIFFED = re.compile(rb"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;[A-Za-z];")
_NO_PROJECT = "_pbs_project_default"
_SUBMITTED = ("ctime", "qtime", "etime")
_QUARTER_S = 900  # offsets of zones are multiples of it
_MOST_OFFSET_S = 15 * 3600


class Pbs:
    """Accounting log of OpenPBS and Torque."""

    name = "pbs"
    label = gettext_noop("OpenPBS, PBS Pro and Torque accounting log")
    extensions: tuple[str, ...] = ()
    reference = "https://docs.adaptivecomputing.com/torque/4-2-7/Content/topics/9-accounting/accountingRecords.htm"
    sample = (
        "01/01/2026 01:00:00;S;17.pbs;user=ada group=physics queue=workq ctime=1767225600 qtime=1767225600 "
        "start=1767225660 exec_host=n1/0*4 exec_vnode=(n1:ncpus=4:mem=8gb) Resource_List.walltime=02:00:00\n"
        "01/01/2026 02:01:00;E;17.pbs;user=ada group=physics queue=workq ctime=1767225600 qtime=1767225600 "
        "start=1767225660 end=1767229260 exec_host=n1/0*4 exec_vnode=(n1:ncpus=4:mem=8gb) "
        "Resource_List.walltime=02:00:00 resources_used.walltime=01:00:00 run_count=1\n"
    )
    fields: tuple[FieldNote, ...] = (
        FieldNote("E; R", gettext_noop("a job that ended; a run that is repeated, counted too")),
        FieldNote("S; Q", gettext_noop("running; pending")),
        FieldNote("D, A", gettext_noop("withdrawn, or ended if it ran and no E line follows")),
        FieldNote("M", gettext_noop("withdrawn: another server has the job now")),
        FieldNote("z, r; u, c, e, s", gettext_noop("suspended, resumed; another allocation: a record for each part")),
        FieldNote("a", gettext_noop("what the job asks for afterwards")),
        FieldNote(
            "id, ctime, start", gettext_noop("job and array_task, submit: a run is known by these; restart: its place")
        ),
        FieldNote("start, end", gettext_noop("start, end; else the time in front of the line, in the source's zone")),
        FieldNote(
            "exec_vnode, exec_host, Resource_List", gettext_noop("cpus, gpus, nodes, mem_mb: the first that is set")
        ),
        FieldNote(
            "gpu_type, gpu_model or accelerator_model of a request; Resource_List.gres; others of exec_vnode",
            gettext_noop("kinds: gpu:h100, gres/matlab"),
        ),
        FieldNote("Resource_List.walltime", gettext_noop("requested_s, HH:MM:SS or seconds")),
        FieldNote("user, group, account, else project", gettext_noop("user, group, project")),
        FieldNote("queue", gettext_noop("queue")),
    )
    needs_zone = False
    is_listing = False

    def sniff(self, head: bytes) -> bool:
        lines = (
            line
            for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n")
            if line.strip() and not line.startswith((b";", b"#"))
        )
        return bool(_SNIFFED.match(next(lines, b"")))

    def parse(self, stream: BinaryIO, reading: Reading, *, resume: Mapping[str, Any] | None = None) -> Iterator[Parsed]:
        """Parse lines; each is an event, rejected individually."""
        reader = _Reader(reading.zone)
        for parsed in parse_lines(stream, reader, resume):
            parsed.batch.are_runs, parsed.batch.events = True, tuple(reader.events)
            reader.events = []
            yield parsed


class _Reader(SingleLines):
    """Reads each line by itself. Events of the lines so far are in `events`, until they are taken."""

    def __init__(self, zone: ZoneInfo | None) -> None:
        self._zone = zone
        self._offset_s: int | None = None  # of the log's local times from UTC, by the newest line that has both
        self._untimed: list[list[Any]] = []  # lines before the first that shows the offset
        self.events: list[RunEvent] = []

    def remember(self) -> dict[str, Any]:
        return {"offset_s": self._offset_s, "untimed": list(self._untimed)}

    def recall(self, remembered: Mapping[str, Any]) -> None:
        self._offset_s, self._untimed = remembered.get("offset_s"), list(remembered.get("untimed", []))

    def take(self, text: str, line: int, notes: Notes) -> Rows:
        if text.startswith((";", "#")):
            return []
        parts = text.split(";", 3)
        if len(parts) < 3:
            raise BadRecord("too_few_fields", "A line has a time, a type and an id, with semicolons between.")
        at, event, job = _head(parts[0]), parts[1], parts[2]
        message = parts[3] if len(parts) > 3 else ""
        if not _TYPE.fullmatch(event):
            raise BadRecord("unknown_type", f"The type is {shown(event)}: one letter belongs there.")
        if event not in _EVENTS or (event == "C" and not message.startswith(_HELD)):
            notes["other_events_skipped"] += 1
            return []
        if not _ID.fullmatch(job):
            raise BadRecord("bad_job", f"The id is {shown(job)}; ids look like 17.server or 17[3].server.")
        if "[]" in job:
            notes["arrays_skipped"] += 1  # its tasks have their own lines
            return []
        row = self._row(at, event, job, split_fields(message), line, notes)
        return [(line, row)] if row is not None else []

    def finish(self, notes: Notes) -> Rows:
        if self._untimed:
            notes["lines_unexplained"] += len(self._untimed)
        self._untimed = []
        return []

    def _row(
        self, at: datetime, event: str, job: str, fields: dict[str, str], line: int, notes: Notes
    ) -> RecordRow | None:
        """The record of a line that is one; of others the event is noted."""
        if event in "QS":
            return self._record(at, event, job, fields, notes)
        if event == "E" or (event == "R" and fields.get("start")):
            return self._ended(at, event, job, fields, line, notes)
        notes["suspensions"] += event == "z"
        notes["allocation_changes"] += event in "cs"
        row, rates, walltime_s = None, NOTHING, None
        if event in "uces" and fields.get("start"):
            row, walltime_s = self._record(at, event, job, fields, notes), _walltime_s(fields)
        if event in "DA" and fields.get("start"):
            row = if_readable(lambda: self._record(at, event, job, fields, notes), None, notes, "start")
        if event in "uces" and (row is None or row.start_at is None):
            return None  # pruned before it started: its S line has what is left
        if event == "a":
            row = _request(job, fields, notes)
        if event == "z":
            rates = released(fields, notes)
        self._add(at, _KINDS[event], job, line, rates, row, walltime_s)
        return None

    def _ended(
        self, at: datetime, event: str, job: str, fields: dict[str, str], line: int, notes: Notes
    ) -> RecordRow | None:
        row = self._record(at, event, job, fields, notes)
        if row.start_at is None or row.end_at is None:
            notes["never_ran"] += 1
            end_at = self._instant(fields, ("end",), None)
            if end_at is None:
                self._add(at, "gone", job, line, NOTHING, row, None)
            else:
                gone = RunEvent("gone", row.job, row.array_task, microseconds(end_at), line, NOTHING, row)
                self.events.append(gone._replace(row=row._replace(restart=0)))
            return None
        walltime_s = _walltime_s(fields)
        rested_s = (row.end_at - row.start_at).total_seconds() - walltime_s if walltime_s is not None else 0.0
        if event == "E" and not row.restart and rested_s <= TOLERANCE_S:
            return row
        end = RunEvent("end", row.job, row.array_task, microseconds(row.end_at), line, NOTHING, row, walltime_s)
        self.events.append(end._replace(row=row._replace(restart=0)))
        return None

    def _add(
        self,
        at: datetime,
        kind: str,
        job: str,
        line: int,
        rates: Rates,
        row: RecordRow | None,
        walltime_s: float | None,
    ) -> None:
        name, task = _job_and_task(job)
        checked(RecordRow(name, array_task=task, user="-", submit_at=at.replace(tzinfo=UTC), state="pending"))
        if self._zone is None and self._offset_s is None:
            if len(self._untimed) < _MOST_UNTIMED:
                seconds = at.replace(tzinfo=UTC).timestamp()
                self._untimed.append([seconds, kind, job, line, [*rates], as_json(row), walltime_s])
            return
        not_before = row.start_at if row is not None else None
        at_us = microseconds(self._local("the event", at, not_before=not_before))
        self.events.append(RunEvent(kind, name, task, at_us, line, rates, row, walltime_s))

    def _time_lines(self) -> None:
        """Give out the lines that no other had shown the time of."""
        lines, self._untimed = self._untimed, []
        for seconds, kind, job, line, rates, row, walltime_s in lines:
            at = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
            self._add(at, kind, job, line, Rates(*rates), from_json(row), walltime_s)

    def _record(self, at: datetime, event: str, job: str, fields: dict[str, str], notes: Notes) -> RecordRow:
        """The line as a record of a whole run."""
        start_at = self._instant(fields, ("start",), at if event == "S" else None) if event != "Q" else None
        submit_at = self._submitted(fields, at if event == "Q" else None, notes)
        end_at = None
        if event in "ER" and start_at is not None:
            end_at = self._instant(fields, ("end",), at, not_before=start_at)
        state = "finished" if event in "ER" else "running"
        if event == "Q" or start_at is None:
            state = "pending" if event == "Q" else "withdrawn"
        self._learn_offset(at, end_at or (start_at if event == "S" else submit_at if event == "Q" else None))
        row = _record(job, state, fields, notes)
        if event != "E":
            row = row._replace(restart=0)
        return checked(row._replace(submit_at=submit_at or start_at, start_at=start_at, end_at=end_at), notes)

    def _submitted(self, fields: dict[str, str], at: datetime | None, notes: Notes) -> datetime | None:
        for name in _SUBMITTED:
            if name not in fields:
                continue
            known = if_readable(lambda text=fields[name]: epoch("the submission", text), None, notes, name)  # type: ignore[misc]
            if known is not None:
                return known
        return None if at is None else self._local("ctime", at)

    def _instant(
        self, fields: dict[str, str], names: tuple[str, ...], at: datetime | None, *, not_before: datetime | None = None
    ) -> datetime | None:
        for name in names:
            if name in fields:
                known = epoch(name, fields[name])
                if known is not None:
                    return known
        return None if at is None else self._local(names[0], at, not_before=not_before)

    def _local(self, name: str, at: datetime, *, not_before: datetime | None = None) -> datetime:
        """The instant of the time in front of a line. In an hour that comes twice, the lines before it decide."""
        by_log = None if self._offset_s is None else at.replace(tzinfo=UTC) - timedelta(seconds=self._offset_s)
        if by_log is not None and (self._zone is None or _fits(by_log, at, self._zone)):
            return by_log
        label = f"The time in front of the line, used for {name}"
        return local(label, at, self._zone, not_before=not_before)

    def _learn_offset(self, at: datetime, known_at: datetime | None) -> None:
        """The difference between the time in front of a line and the same instant in a field, if it can be a zone's."""
        if known_at is None:
            return
        offset_s = round((at.replace(tzinfo=UTC) - known_at).total_seconds())
        nearest = round(offset_s / _QUARTER_S) * _QUARTER_S
        if abs(offset_s - nearest) <= 2 and abs(nearest) <= _MOST_OFFSET_S:
            self._offset_s = nearest
            if self._untimed:
                self._time_lines()


def _fits(instant_at: datetime, naive: datetime, zone: ZoneInfo) -> bool:
    """Whether an instant is one of the two that a repeated local time can be."""
    return is_repeated(naive, zone) and instant_at.astimezone(zone).replace(tzinfo=None, fold=0) == naive


def _walltime_s(fields: Mapping[str, str]) -> float | None:
    text = fields.get("resources_used.walltime", "")
    try:
        return clock_s("resources_used.walltime", text) if text else None
    except BadRecord:
        return None


def _head(text: str) -> datetime:
    form = _HEAD.fullmatch(text)
    if not form:
        raise BadRecord("bad_time", f"The line begins with {shown(text)}; 12/31/2026 23:59:59 belongs there.")
    month, day, year, hour, minute, second = map(int, form.groups())
    leap = timedelta(seconds=1 if second == 60 and minute % 15 == 14 else 0)  # see `split_leap_second`
    try:
        naive = datetime(year, month, day, hour, minute, 59 if leap else second)  # noqa: DTZ001 - its zone comes later
        return naive + leap
    except (ValueError, OverflowError) as error:
        raise BadRecord("bad_time", f"The line begins with {shown(text)}, which no calendar has.") from error


def _job_and_task(job: str) -> tuple[str, str]:
    """17[3].server and Torque's older 17-3.server are task 3 of 17[].server."""
    form = _TASK.fullmatch(job)
    if not form:
        return job, ""
    return f"{form[1]}[]{form[4]}", form[2] or form[3] or ""


def _record(job: str, state: str, fields: dict[str, str], notes: Notes) -> RecordRow:
    name, task = _job_and_task(job)
    rates = allocated(fields, notes, ran=state in ("running", "finished"))
    runs = if_readable(lambda: _run_count(fields), 1, notes, "run_count")
    project = fields.get("account") or fields.get("project", "")
    walltime, requested_s = fields.get("Resource_List.walltime"), None
    if walltime:
        requested_s = if_readable(lambda: clock_s("Resource_List.walltime", walltime), None, notes, "walltime")
    return RecordRow(
        job=name,
        array_task=task,
        user=fields.get("user", ""),
        group=fields.get("group", ""),
        project="" if project == _NO_PROJECT else project,
        queue=fields.get("queue", ""),
        state=state,
        requested_s=requested_s,
        restart=max(runs - 1, 0),
        kinds=kinds_of(fields, rates, notes),
        **rates._asdict(),
    )


def _request(job: str, fields: dict[str, str], notes: Notes) -> RecordRow:
    """What a line asks for from then on: 0 or None where it names nothing."""
    row = _record(job, "pending", fields, Notes())
    if not any(name in fields for name in _CPU_REQUESTS):
        row = row._replace(cpus=0.0, nodes=0.0)
    return _without_bad_extras_of(row, notes)


def _without_bad_extras_of(row: RecordRow, notes: Notes) -> RecordRow:
    at = datetime(2000, 1, 1, tzinfo=UTC)  # a request has no times
    return checked(row._replace(submit_at=at, user=row.user or "-"), notes)._replace(submit_at=None, user="", restart=0)


def _run_count(fields: Mapping[str, str]) -> int:
    runs = whole("run_count", fields.get("run_count", "1"))
    if not 0 <= runs <= MOST_RESTART:
        raise BadRecord("absurd_number", f"run_count is {runs}.")
    return runs
