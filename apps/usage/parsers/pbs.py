"""Parse accounting logs of OpenPBS, PBS Professional and Torque.

Lines are `MM/DD/YYYY HH:MM:SS;TYPE;ID;key=value …`, split at most three times, since values may contain semicolons.
They are events of runs. A run is known by its job and start; what it used is what it held, part by part:

- Q, S: queued, started. E, R: ended; ended and will be repeated. D, A: deleted, aborted, mostly before an E.
- z, r: suspended, resumed (OpenPBS); the server gave its resources to others meanwhile.
- u, c, e: the end of a phase, the next one, the end of the last one. s: pruned at its start. The E line then has the
  first allocation. T: restarted from a checkpoint.

Epochs in fields are preferred to the local time at the start of the line, which is used where no field has the time. It
needs the source's zone, or lines before it that have both. Lines that name a job alone, of a run that began in another
file, become events, which stored records explain when they are ingested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO
from zoneinfo import ZoneInfo

from apps.core.local_time import is_repeated
from apps.usage.parsers.base import (
    MOST_RESTART,
    FieldNote,
    Parsed,
    Rates,
    Reading,
    RecordRow,
    RunEvent,
    instant,
    microseconds,
)
from apps.usage.parsers.field_values import BadRecord, checked, if_readable, shown, whole
from apps.usage.parsers.instants import clock_s, epoch, local
from apps.usage.parsers.lines import Notes, Rows, SingleLines, parse_lines
from apps.usage.parsers.pbs_fields import allocated, released, split_fields
from apps.usage.parsers.runs import NOTHING, Run, less, rates_of

MOST_WAITING = 2_000  # queued jobs remembered because deletions name only the id
MOST_OPEN = 1_000  # runs remembered because other lines name only the id; stored records know the others
_WHILE_RUNNING = frozenset({"S", "u", "c", "e", "s"})  # events of a run that goes on behind them
_MOST_ENDED = 200
_MOST_LOOSE, _MOST_LINES = 200, 100  # runs that began in an earlier file, and lines about one
_TOLERANCE_S = 300  # by which a walltime may differ from the times of lines
_HEAD = re.compile(r"(\d\d)/(\d\d)/(\d{4}) (\d\d):(\d\d):(\d\d)", re.ASCII)
_TYPE = re.compile(r"[A-Za-z]", re.ASCII)
_ID = re.compile(r"\d+(?:\[\d*\])?(?:-\d+)?(?:\.[^\s;]*)?", re.ASCII)
_TASK = re.compile(r"(\d+)(?:\[(\d*)\]|-(\d+))(.*)", re.ASCII)
_EVENTS = frozenset("QSERDAzrucesTC")
_HELD = "Checkpointed and held"  # Torque's C line of a job that gives its nodes back
_SNIFFED = re.compile(rb"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;[A-Za-z];")
_NO_PROJECT = "_pbs_project_default"
_SUBMITTED = ("ctime", "qtime", "etime")
_QUARTER_S = 900  # offsets of zones are multiples of it
_MOST_OFFSET_S = 15 * 3600
_FIRST_PHASE_S = 120  # by which the walltime of a first phase may be shorter than the time since the start


class Pbs:
    """Accounting log of OpenPBS and Torque."""

    name = "pbs"
    label = "OpenPBS, PBS Pro and Torque accounting log"
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
        FieldNote("E; R", "a job that ended; a run that is repeated, counted too"),
        FieldNote("S; Q", "running; pending"),
        FieldNote("D, A", "withdrawn, or ended if it ran and no E line follows"),
        FieldNote("z, r; u, c, e, s", "suspended, resumed; another allocation: a record for each part"),
        FieldNote("id, ctime, start", "job and array_task, submit: a run is known by these; run_count: restart"),
        FieldNote("start, end", "start, end; else the time in front of the line, in the source's zone"),
        FieldNote("exec_vnode, exec_host, Resource_List", "cpus, gpus, nodes, mem_mb: the first that is set"),
        FieldNote("Resource_List.walltime", "requested_s, HH:MM:SS or seconds"),
        FieldNote("user, group, account, else project", "user, group, project"),
        FieldNote("queue", "queue"),
    )
    needs_zone = False
    is_listing = False

    def sniff(self, head: bytes) -> bool:
        lines = (line for line in head.split(b"\n") if line.strip() and not line.startswith((b";", b"#")))
        return bool(_SNIFFED.match(next(lines, b"")))

    def parse(self, stream: BinaryIO, reading: Reading, *, resume: Mapping[str, Any] | None = None) -> Iterator[Parsed]:
        """Parse lines; each is an event, rejected individually."""
        reader = _Reader(reading.zone)
        for parsed in parse_lines(stream, reader, resume):
            parsed.batch.are_runs, parsed.batch.events = True, tuple(reader.events)
            reader.events = []
            yield parsed


class _Reader(SingleLines):
    """The runs of a log so far. open, ended: the newest run of each job. loose: what lines said of other runs."""

    def __init__(self, zone: ZoneInfo | None) -> None:
        self._zone = zone
        self._offset_s: int | None = None  # of the log's local times from UTC, by the newest line that has both
        self._waiting: dict[str, list[Any]] = {}  # id → [user, group, ctime]
        self._open: dict[str, Run] = {}
        self._ended: dict[str, Run] = {}
        self._gone: dict[str, list[int]] = {}  # id of an open run → [when it was deleted, line]
        self._loose: dict[str, list[Any]] = {}  # id → [lines about it, rates and seconds of its last phase]
        self.events: list[RunEvent] = []

    def remember(self) -> dict[str, Any]:
        runs = {name: {job: run.as_json() for job, run in getattr(self, f"_{name}").items()} for name in _RUNS}
        plain = {"waiting": dict(self._waiting), "gone": dict(self._gone), "loose": dict(self._loose)}
        return {**plain, **runs, "offset_s": self._offset_s}

    def recall(self, remembered: Mapping[str, Any]) -> None:
        for name in ("waiting", "gone", "loose"):
            setattr(self, f"_{name}", dict(remembered.get(name, {})))
        for name in _RUNS:
            known = remembered.get(name, {}).items()
            setattr(self, f"_{name}", {job: Run.from_json(value) for job, value in known})
        self._offset_s = remembered.get("offset_s")

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
        return [(line, row) for row in self._rows(at, event, job, split_fields(message), line, notes)]

    def finish(self, notes: Notes) -> Rows:
        """Runs that were deleted or aborted, and have no other end in the file."""
        rows: Rows = []
        for job, (at_us, line) in list(self._gone.items()):
            run = self._open.get(job)
            rows += [(line, row) for row in (self._end(job, run, at_us) if run else [])]
        self._gone = {}
        return rows

    def _rows(
        self, at: datetime, event: str, job: str, fields: dict[str, str], line: int, notes: Notes
    ) -> list[RecordRow]:
        if event == "Q":
            return [self._queued(at, job, fields, notes)]
        if event == "S":
            return self._started(at, job, fields, notes)
        if event == "E" or (event == "R" and "start" in fields):
            return self._finished(at, event, job, fields, notes)
        if event in "DARC":
            return self._gone_at(at, event, job, fields, line, notes)
        if event in "zr":
            return self._rest_or_resume(at, event, job, fields, line, notes)
        if event == "T":
            return self._restarted(at, job, notes)
        return self._phase(at, event, job, fields, line, notes)

    def _queued(self, at: datetime, job: str, fields: dict[str, str], notes: Notes) -> RecordRow:
        row = self._record(at, "Q", job, fields, notes)
        self._waiting.pop(job, None)
        if "ctime" in fields:
            known = [fields.get("user", "")[:256], fields.get("group", "")[:256], fields["ctime"][:20]]
            if len(job) <= 128 and all(value.isprintable() for value in known):
                self._waiting[job] = known
            if len(self._waiting) > MOST_WAITING:
                del self._waiting[next(iter(self._waiting))]
        return row

    def _started(self, at: datetime, job: str, fields: dict[str, str], notes: Notes) -> list[RecordRow]:
        row = self._record(at, "S", job, fields, notes)
        self._waiting.pop(job, None)
        known = self._known(job)
        if known is not None and known.first.start_at == row.start_at:
            return [row._replace(restart=known.first.restart)]  # the line is repeated
        rows = self._before(job, row, notes)
        run = Run(self._numbered(row, fields, known))
        self._keep(job, run)
        return [*rows, *run.new_rows()]

    def _finished(self, at: datetime, event: str, job: str, fields: dict[str, str], notes: Notes) -> list[RecordRow]:
        row = self._record(at, event, job, fields, notes)
        self._waiting.pop(job, None)
        if row.state == "withdrawn":
            notes["never_ran"] += 1
            return [row]
        known, loose = self._known(job), self._loose.pop(job, None)
        if known is None or known.first.start_at != row.start_at:
            rows = self._before(job, row, notes)
            row = self._numbered(row, fields, known)
            run = Run(row._replace(state="running", end_at=None), end_us=_us(row.end_at))
            if loose:
                _apply(run, loose, _walltime_s(fields))
            parts = _all_checked(run.new_rows())
            self._keep(job, run)
            return [*rows, *parts]
        end_us = _us(row.end_at)
        if known.changes:
            return self._end(job, known, end_us)
        rows = []
        if "run_count" not in fields:
            row = row._replace(restart=known.first.restart)
        elif known.first.restart != row.restart:  # attempts to start it that failed were counted, too
            rows.append(known.first._replace(state="withdrawn"))
        known.first = row._replace(state="running", end_at=None)
        self._end(job, known, end_us)
        return [*rows, row]

    def _gone_at(
        self, at: datetime, event: str, job: str, fields: dict[str, str], line: int, notes: Notes
    ) -> list[RecordRow]:
        """A job was deleted or aborted, or (Torque) is run again. Of one that ran, an E line mostly follows."""
        if job in self._waiting:
            return self._withdrawn(job)
        run = self._open.get(job)
        if run is not None:
            at_us = self._at_us(at, not_before=run.first.start_at)
            if event == "R":
                return self._end(job, run, max(at_us, run.start_us))
            self._gone.setdefault(job, [max(at_us, run.start_us), line])
            return []
        if job in self._ended:
            return []
        if fields.get("start"):
            return self._finished(at, event, job, fields, notes)
        # A run that is repeated holds nothing from then on, whatever was assumed of its end.
        self._loose_event("rest" if event == "R" else "end", at, job, line, notes)
        return []

    def _withdrawn(self, job: str) -> list[RecordRow]:
        name, task = _job_and_task(job)
        user, group, submitted = self._waiting.pop(job)
        submit_at = epoch("ctime", submitted)
        return [checked(RecordRow(name, user, group, "withdrawn", submit_at=submit_at, array_task=task))]

    def _rest_or_resume(
        self, at: datetime, event: str, job: str, fields: dict[str, str], line: int, notes: Notes
    ) -> list[RecordRow]:
        notes["suspensions"] += event == "z"
        run = self._known(job)
        if run is None:
            self._loose_event("rest" if event == "z" else "resume", at, job, line, notes, released(fields, notes))
            return []
        at_us = self._at_us(at, not_before=run.first.start_at)
        if at_us < run.start_us or (run.end_us is not None and at_us > run.end_us):
            return []
        if event == "r":
            run.resume(at_us)
        else:
            run.rest(at_us, less(run.held_at(at_us, awake=True), released(fields, notes)))
        return _all_checked(run.new_rows())

    def _phase(
        self, at: datetime, event: str, job: str, fields: dict[str, str], line: int, notes: Notes
    ) -> list[RecordRow]:
        """u, c, e or s: the end of a phase, the next one, the end of the last one, or a run pruned at its start."""
        row = self._record(at, event, job, fields, notes)
        if row.start_at is None:
            return []  # pruned before it started: its S line has what is left
        run, rates = self._known(job), rates_of(row)
        at_us, walltime_s = self._at_us(at, not_before=row.start_at), _walltime_s(fields)
        if run is not None and run.first.start_at == row.start_at:
            if event in "cs":
                notes["allocation_changes"] += 1
                run.change(at_us, rates)
            elif event == "e" and walltime_s is not None and run.held_at(at_us, awake=True) != rates:
                run.change(max(run.start_us, at_us - int(walltime_s * 1e6)), rates)
            return _all_checked(run.new_rows()) if event != "e" else []
        since_s = (at_us - microseconds(row.start_at)) / 1e6
        if event == "u" and walltime_s is not None and walltime_s >= since_s - _FIRST_PHASE_S:
            rows = self._before(job, row, notes)
            run = Run(self._numbered(row, fields, self._known(job)))
            self._keep(job, run)
            return [*rows, *run.new_rows()]
        if event == "e":
            self._loose.setdefault(job, [[], None])[1] = [[*rates], walltime_s]
            self._bound()
        elif event in "cs":
            self._loose_event("change", at, job, line, notes, rates)
        return []

    def _restarted(self, at: datetime, job: str, notes: Notes) -> list[RecordRow]:
        """From a checkpoint: as its last run, which has ended."""
        run = self._ended.get(job)
        if run is None:
            notes["other_events_skipped"] += 1
            return []
        at_us = self._at_us(at, not_before=run.first.start_at)
        again = Run(run.first._replace(start_at=instant(at_us), restart=run.first.restart + 1))
        self._keep(job, again)
        return _all_checked(again.new_rows())

    def _known(self, job: str) -> Run | None:
        return self._open.get(job) or self._ended.get(job)

    def _keep(self, job: str, run: Run) -> None:
        self._gone.pop(job, None)
        self._open.pop(job, None)
        self._ended.pop(job, None)
        (self._open if run.is_open else self._ended)[job] = run
        self._bound()

    def _bound(self) -> None:
        for runs, most in ((self._ended, _MOST_ENDED), (self._loose, _MOST_LOOSE)):
            while len(runs) > most:
                del runs[next(iter(runs))]
        while len(self._open) > MOST_OPEN:
            job = next(iter(self._open))
            run = self._open.pop(job)
            if job in self._gone:
                at_us, line = self._gone.pop(job)
                self.events.append(RunEvent("end", run.first.job, run.first.array_task, at_us, line))

    def _end(self, job: str, run: Run, end_us: int) -> list[RecordRow]:
        run.end_us = end_us
        rows = _all_checked(run.new_rows())
        self._keep(job, run)
        return rows

    def _before(self, job: str, row: RecordRow, notes: Notes) -> list[RecordRow]:
        """The end of an earlier run that no line ended: runs of one job don't overlap."""
        run, start_at = self._open.get(job), row.start_at
        if run is None or start_at is None or run.start_us >= microseconds(start_at):
            return []
        end_us, _ = self._gone.get(job, [None, 0])
        if end_us is None:
            notes["ends_unknown"] += 1
            end_us = run.latest_end_us(microseconds(start_at))
        return self._end(job, run, end_us)

    @staticmethod
    def _numbered(row: RecordRow, fields: Mapping[str, str], known: Run | None) -> RecordRow:
        """A run without run_count is the next after the last one of this job."""
        if "run_count" in fields or known is None or known.first.submit_at != row.submit_at:
            return row
        return row._replace(restart=known.first.restart + 1)

    def _loose_event(
        self, kind: str, at: datetime, job: str, line: int, notes: Notes, rates: Rates | None = None
    ) -> None:
        """A line about a run that began in an earlier file."""
        if self._zone is None and self._offset_s is None:
            notes["lines_unexplained"] += 1
            return
        name, task = _job_and_task(job)
        event = RunEvent(kind, name, task, self._at_us(at), line, rates or NOTHING)
        self.events.append(event)
        if kind != "end":
            lines = self._loose.setdefault(job, [[], None])[0]
            if len(lines) < _MOST_LINES:
                lines.append([kind, event.at_us, [*event.rates]])
            self._bound()

    def _record(self, at: datetime, event: str, job: str, fields: dict[str, str], notes: Notes) -> RecordRow:
        """The line as a record of a whole run."""
        start_at = self._instant(fields, ("start",), at if event == "S" else None) if event != "Q" else None
        submit_at = self._submitted(fields, at if event == "Q" else None, notes)
        end_at = None
        if event in "ERDAC" and start_at is not None:
            end_at = self._instant(fields, ("end",), at, not_before=start_at)
        state = "running" if event in _WHILE_RUNNING else "finished"
        if event == "Q" or start_at is None:
            state = "pending" if event == "Q" else "withdrawn"
        self._learn_offset(at, end_at or (start_at if event == "S" else submit_at if event == "Q" else None), fields)
        row = _record(job, state, fields, notes)
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

    def _at_us(self, at: datetime, *, not_before: datetime | None = None) -> int:
        return microseconds(self._local("the event", at, not_before=not_before))

    def _local(self, name: str, at: datetime, *, not_before: datetime | None = None) -> datetime:
        """The instant of the time in front of a line. In an hour that comes twice, the lines before it decide."""
        by_log = None if self._offset_s is None else at.replace(tzinfo=UTC) - timedelta(seconds=self._offset_s)
        if by_log is not None and (self._zone is None or _fits(by_log, at, self._zone)):
            return by_log
        label = f"The time in front of the line, used for {name}"
        return local(label, at, self._zone, not_before=not_before)

    def _learn_offset(self, at: datetime, known_at: datetime | None, fields: Mapping[str, str]) -> None:
        """The difference between the time in front of a line and the same instant in a field, if it can be a zone's."""
        if known_at is None:
            return
        offset_s = round((at.replace(tzinfo=UTC) - known_at).total_seconds())
        nearest = round(offset_s / _QUARTER_S) * _QUARTER_S
        if abs(offset_s - nearest) <= 2 and abs(nearest) <= _MOST_OFFSET_S:
            self._offset_s = nearest


_RUNS = ("open", "ended")


def _fits(instant_at: datetime, naive: datetime, zone: ZoneInfo) -> bool:
    """Whether an instant is one of the two that a repeated local time can be."""
    return is_repeated(naive, zone) and instant_at.astimezone(zone).replace(tzinfo=None, fold=0) == naive


def _us(at: datetime | None) -> int:
    if at is None:
        raise BadRecord("missing_field", "The end is missing.")
    return microseconds(at)


def _all_checked(rows: list[RecordRow]) -> list[RecordRow]:
    return [checked(row) for row in rows]


def _apply(run: Run, loose: list[Any], walltime_s: float | None) -> None:
    """What this file says of a run whose start is in an earlier one.

    Where its walltime shows that it rested at times that this file doesn't name, its first part is the shorter.
    """
    lines, last = loose
    for kind, at_us, rates in sorted(lines, key=lambda line: int(line[1])):
        if kind == "rest":
            run.rest(at_us, less(run.held_at(at_us, awake=True), Rates(*rates)))
        elif kind == "resume":
            run.resume(at_us)
        else:
            run.change(at_us, Rates(*rates))
    if last is not None and not run.changes:
        rates, last_s = Rates(*last[0]), last[1]
        begin_us = (run.end_us or 0) - int((last_s or 0.0) * 1e6)
        if rates != run.rates and begin_us - run.start_us <= _TOLERANCE_S * 1_000_000:
            run.first = run.first._replace(**rates._asdict())
        elif rates != run.rates:
            run.change(begin_us, rates)
        return
    rested = [at_us for kind, at_us, _ in lines if kind in ("rest", "resume")]
    if rested and walltime_s is not None:
        held_s = sum(((part.end_us or 0) - part.begin_us) / 1e6 for part in run.parts())
        if held_s - walltime_s > _TOLERANCE_S:
            first_us = min(rested) - int((held_s - walltime_s) * 1e6)
            if run.held_at(min(rested), awake=True) == run.held_at(min(rested)):
                run.rest(max(first_us, run.start_us))
            run.changes = [
                change for change in run.changes if not (change.is_rest and first_us < change.at_us <= min(rested))
            ]


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
    try:
        return datetime(year, month, day, hour, minute, second)  # noqa: DTZ001 - a local time, the zone is applied later
    except ValueError as error:
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
        **rates._asdict(),
    )


def _run_count(fields: Mapping[str, str]) -> int:
    runs = whole("run_count", fields.get("run_count", "1"))
    if not 0 <= runs <= MOST_RESTART:
        raise BadRecord("absurd_number", f"run_count is {runs}.")
    return runs
