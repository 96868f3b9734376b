"""Parse accounting logs of OpenPBS, PBS Professional and Torque.

Lines are `MM/DD/YYYY HH:MM:SS;TYPE;ID;key=value …`, split at most three times, since values may contain semicolons. E:
a job, or one run of it, ended. R: a run ended that will be repeated. S: a job started. Q: a job was queued. D and A: a
job left the queue. Epochs in fields are preferred to the local time at the start of the line, which needs a zone and is
used only if no field has the time. Usage is (end − start) × allocated processors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple
from zoneinfo import ZoneInfo

from apps.usage.parsers.base import FieldNote, Parsed, Reading, RecordRow
from apps.usage.parsers.field_values import BadRecord, amount, checked, if_readable, shown, whole
from apps.usage.parsers.instants import clock_s, epoch, local
from apps.usage.parsers.lines import Notes, Rows, SingleLines, parse_lines

_SIZE = re.compile(r"(\d{1,18})([kmgtpKMGTP]?)([bwBW]?)", re.ASCII)
_WORD_BYTES = 8
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_SLOTS = re.compile(r"(\d+)(?:\*(\d+)|-(\d+))?", re.ASCII)


class Allocation(NamedTuple):
    cpus: float
    gpus: float
    nodes: float
    mem_mb: float


def allocation(fields: Mapping[str, str], notes: Notes) -> Allocation:
    """The allocated resources: from exec_vnode, else slots in exec_host, else the requested resources."""
    vnodes = _vnodes(fields.get("exec_vnode", ""))
    hosts, slots = _hosts(fields.get("exec_host", ""))
    nodes, ppn, gpn = _asked_nodes(fields.get("Resource_List.nodes", ""))
    cpus = (
        vnodes.cpus
        or slots
        or _of(fields, "total_execution_slots")
        or nodes * ppn
        or _of(fields, "Resource_List.ncpus", "resources_used.ncpus", "Resource_List.procs")
    )
    if not cpus:
        notes["processors_unknown"] += 1
    mem_mb = vnodes.mem_mb
    if not mem_mb:
        asked = next((fields[name] for name in ("Resource_List.mem", "resources_used.mem") if name in fields), "")
        mem_mb = _size_mb("mem", asked) if asked else 0.0
    return Allocation(
        cpus=cpus or 1.0,
        gpus=vnodes.gpus or _of(fields, "Resource_List.ngpus", "Resource_List.gpus") or nodes * gpn,
        nodes=float(hosts) or vnodes.nodes or _of(fields, "Resource_List.nodect") or nodes,
        mem_mb=mem_mb,
    )


def _of(fields: Mapping[str, str], *names: str) -> float:
    for name in names:
        if fields.get(name):
            return amount(name, fields[name])
    return 0.0


def _vnodes(text: str) -> Allocation:
    """Sum of (n1:ncpus=4:mem=8gb)+(n2:ncpus=1:ngpus=1+n3:ncpus=1)."""
    cpus = gpus = mem_mb = 0.0
    names = set()
    for chunk in text.replace("(", "").replace(")", "").split("+") if text else ():
        name, *resources = chunk.split(":")
        names.add(name)
        for resource in resources:
            key, _, value = resource.partition("=")
            if key == "ncpus":
                cpus += amount("ncpus in exec_vnode", value)
            elif key == "ngpus":
                gpus += amount("ngpus in exec_vnode", value)
            elif key == "mem":
                mem_mb += _size_mb("mem in exec_vnode", value)
    return Allocation(cpus, gpus, float(len(names)), mem_mb)


def _hosts(text: str) -> tuple[int, float]:
    """Number of hosts and slots in n1/0*4+n2/0-3+n3/1."""
    names, slots = set(), 0.0
    for chunk in text.split("+") if text else ():
        name, _, ranges = chunk.partition("/")
        names.add(name)
        for slot_range in ranges.split(",") if ranges else ("0",):
            form = _SLOTS.fullmatch(slot_range)
            if not form:
                raise BadRecord("bad_fields", f"exec_host contains {shown(chunk)}; hosts look like n1/0*4 or n1/0-3.")
            slots += float(form[2] or 1) if form[3] is None else max(float(form[3]) - float(form[1]) + 1, 0.0)
    return len(names), slots


def _asked_nodes(text: str) -> tuple[float, float, float]:
    """Torque's nodes=2:ppn=4:gpus=1+1:ppn=2 as (nodes, processors per node, devices per node), on average."""
    nodes = cpus = gpus = 0.0
    for chunk in text.split("+") if text else ():
        first, *properties = chunk.split(":")
        count = amount("Resource_List.nodes", first) if first[:1].isdigit() else 1.0
        counts = dict(pair.partition("=")[::2] for pair in properties)
        nodes += count
        cpus += count * (amount("ppn", counts["ppn"]) if "ppn" in counts else 1.0)
        gpus += count * (amount("gpus", counts["gpus"]) if counts.get("gpus") else 0.0)
    return (nodes, cpus / nodes, gpus / nodes) if nodes else (0.0, 0.0, 0.0)


def _size_mb(name: str, text: str) -> float:
    """Megabytes of 600mb, 307200kb, 8gb, 4096 (bytes) or 10mw (words of 8 bytes)."""
    form = _SIZE.fullmatch(text)
    if not form:
        raise BadRecord("bad_fields", f"{name} is {shown(text)}; sizes look like 600mb or 8gb.")
    unit = _WORD_BYTES if form[3] in ("w", "W") else 1
    return float(form[1]) * unit * 1024.0 ** _POWERS[form[2].lower()] / 1024**2


MOST_WAITING = 2_000  # queued jobs stored because deletions name only the id
_HEAD = re.compile(r"(\d\d)/(\d\d)/(\d{4}) (\d\d):(\d\d):(\d\d)", re.ASCII)
_TYPE = re.compile(r"[A-Za-z]", re.ASCII)
_ID = re.compile(r"\d+(?:\[\d*\])?(?:-\d+)?(?:\.[^\s;]*)?", re.ASCII)
_TASK = re.compile(r"(\d+)(?:\[(\d*)\]|-(\d+))(.*)", re.ASCII)
# A name, =, and a value up to the next blank, or quoted up to a quote before a blank or the end.
_PAIR = re.compile(r"(?:^|(?<=\s))([A-Za-z_][\w.\-]*)=('[^']*'(?=\s|$)|\"[^\"]*\"(?=\s|$)|\S*)", re.ASCII)
_EVENTS = {"Q": "pending", "S": "running", "E": "finished", "R": "finished"}
_LEAVES = ("D", "A")
_SNIFFED = re.compile(rb"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;[A-Za-z];")
_NO_PROJECT = "_pbs_project_default"


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
        FieldNote("S; Q; D, A", "running; pending; withdrawn, if its Q is in the same file"),
        FieldNote("id, ctime, run_count", "job and array_task, submit, restart: a run is known by these"),
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
        return parse_lines(stream, _Reader(reading.zone), resume)


class _Reader(SingleLines):
    def __init__(self, zone: ZoneInfo | None) -> None:
        self._zone = zone
        self._waiting: dict[str, list[Any]] = {}  # id → [user, group, ctime]

    def remember(self) -> dict[str, Any]:
        return {"waiting": dict(self._waiting)}

    def recall(self, remembered: Mapping[str, Any]) -> None:
        self._waiting = dict(remembered.get("waiting", {}))

    def take(self, text: str, line: int, notes: Notes) -> Rows:
        if text.startswith((";", "#")):
            return []
        parts = text.split(";", 3)
        if len(parts) < 3:
            raise BadRecord("too_few_fields", "A line has a time, a type and an id, with semicolons between.")
        at, event, job = _head(parts[0]), parts[1], parts[2]
        if not _TYPE.fullmatch(event):
            raise BadRecord("unknown_type", f"The type is {shown(event)}: one letter belongs there.")
        if event not in _EVENTS and event not in _LEAVES:
            notes["other_events_skipped"] += 1
            return []
        if not _ID.fullmatch(job):
            raise BadRecord("bad_job", f"The id is {shown(job)}; ids look like 17.server or 17[3].server.")
        if event in _LEAVES:
            return [(line, row) for row in self._withdrawn(job, notes)]
        fields = _fields(parts[3] if len(parts) > 3 else "")
        row = self._row(at, event, job, fields, notes)
        return [(line, row)] if row else []

    def _withdrawn(self, job: str, notes: Notes) -> list[RecordRow]:
        """Withdraw a job that left the queue before it ran. One that ran has its E line, and its usage must stay."""
        known = self._waiting.pop(job, None)
        if known is None:
            notes["deletions_without_queued_job"] += 1
            return []
        name, task = _job_and_task(job)
        user, group, submitted = known
        submit_at = epoch("ctime", submitted)
        return [checked(RecordRow(name, user, group, "withdrawn", submit_at=submit_at, array_task=task))]

    def _row(self, at: datetime, event: str, job: str, fields: dict[str, str], notes: Notes) -> RecordRow | None:
        if event == "R" and "start" not in fields:
            notes["reruns_without_times"] += 1
            return None
        name, task = _job_and_task(job)
        if task == "" and "[]" in job:
            notes["arrays_skipped"] += 1  # its tasks have their own lines
            return None
        self._follow(event, job, fields)
        submit_at = self._instant(fields, ("ctime", "qtime", "etime"), at if event == "Q" else None)
        start_at = self._instant(fields, ("start",), at if event == "S" else None) if event != "Q" else None
        end_at = None
        if event in "ER" and start_at is not None:
            end_at = self._instant(fields, ("end",), at, not_before=start_at)
        state = _EVENTS[event]
        if event == "E" and start_at is None:
            state = "withdrawn"
            notes["never_ran"] += 1
        return checked(
            _record(name, task, state, fields, notes)._replace(submit_at=submit_at, start_at=start_at, end_at=end_at)
        )

    def _follow(self, event: str, job: str, fields: dict[str, str]) -> None:
        self._waiting.pop(job, None)
        if event != "Q" or "ctime" not in fields:
            return
        known = [fields.get("user", "")[:256], fields.get("group", "")[:256], fields["ctime"][:20]]
        if len(job) <= 128 and all(value.isprintable() for value in known):
            self._waiting[job] = known
        if len(self._waiting) > MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]

    def _instant(
        self,
        fields: dict[str, str],
        names: tuple[str, ...],
        naive: datetime | None,
        *,
        not_before: datetime | None = None,
    ) -> datetime | None:
        for name in names:
            if name in fields:
                instant = epoch(name, fields[name])
                if instant is not None:
                    return instant
        if naive is None:
            return None
        return local(f"The time in front of the line, used for {names[0]}", naive, self._zone, not_before=not_before)


def _head(text: str) -> datetime:
    form = _HEAD.fullmatch(text)
    if not form:
        raise BadRecord("bad_time", f"The line begins with {shown(text)}; 12/31/2026 23:59:59 belongs there.")
    month, day, year, hour, minute, second = map(int, form.groups())
    try:
        return datetime(year, month, day, hour, minute, second)  # noqa: DTZ001 - a local time, the zone is applied later
    except ValueError as error:
        raise BadRecord("bad_time", f"The line begins with {shown(text)}, which no calendar has.") from error


def _fields(text: str) -> dict[str, str]:
    """Fields of a line; of duplicate names the first counts, since a job's name may contain anything."""
    fields: dict[str, str] = {}
    for name, value in _PAIR.findall(text):
        if value[:1] in ("'", '"') and len(value) > 1 and value[0] == value[-1]:
            value = value[1:-1]
        fields.setdefault(name, value)
    return fields


def _job_and_task(job: str) -> tuple[str, str]:
    """17[3].server and Torque's older 17-3.server are task 3 of 17[].server."""
    form = _TASK.fullmatch(job)
    if not form:
        return job, ""
    return f"{form[1]}[]{form[4]}", form[2] or form[3] or ""


def _record(job: str, task: str, state: str, fields: dict[str, str], notes: Notes) -> RecordRow:
    resources: Allocation = allocation(fields, notes)
    runs = whole("run_count", fields["run_count"]) if "run_count" in fields else 1
    project = fields.get("account") or fields.get("project", "")
    walltime = fields.get("Resource_List.walltime")
    return RecordRow(
        job=job,
        array_task=task,
        user=fields.get("user", ""),
        group=fields.get("group", ""),
        project="" if project == _NO_PROJECT else project,
        queue=fields.get("queue", ""),
        state=state,
        cpus=resources.cpus,
        gpus=resources.gpus,
        nodes=resources.nodes,
        mem_mb=resources.mem_mb,
        requested_s=if_readable(lambda: clock_s("Resource_List.walltime", walltime), None, notes) if walltime else None,
        restart=max(runs - 1, 0),
    )
