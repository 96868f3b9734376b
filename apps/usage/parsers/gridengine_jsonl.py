"""Parse the accounting of Gridware's and Open Cluster Scheduler: accounting.jsonl, one JSON object a line.

Its runs are those of Grid Engine's accounting file under the same names; instants are microseconds since 1970 (seconds
in the first releases). Source: man page sge_accounting(5) of Open Cluster Scheduler 9, and its writer up to 9.1.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import orjson
from django.utils.translation import gettext_noop

from apps.usage.parsers.base import FieldNote, Parsed, Reading
from apps.usage.parsers.field_values import BadRecord, shown
from apps.usage.parsers.gridengine import Run, row_of
from apps.usage.parsers.json_lines import loaded
from apps.usage.parsers.lines import Notes, Rows, SingleLines, parse_lines

_NEEDED = ("job_number", "owner", "submission_time", "start_time", "slots")


class GridEngineJsonl:
    """accounting.jsonl."""

    name = "gridengine-jsonl"
    label = gettext_noop("Gridware and Open Cluster Scheduler accounting (accounting.jsonl)")
    extensions: tuple[str, ...] = (".jsonl",)
    reference = "https://github.com/hpc-gridware/clusterscheduler/blob/master/doc/markdown/man/man5/sge_accounting.md"
    sample = (
        '{"job_number":101,"task_number":0,"start_time":1767225660580794,"end_time":1767229260580794,"owner":"ada",'
        '"group":"physics","account":"sge","qname":"all.q","hostname":"node1","department":"defaultdepartment",'
        '"slots":4,"granted_pe":"smp","job_name":"fit","priority":0,"submission_time":1767225600122999,'
        '"category":"-pe smp 4","failed":0,"exit_status":0,"usage":{"rusage":{"ru_wallclock":3600},'
        '"usage":{"wallclock":3600.9,"cpu":3592.3,"maxvmem":30171136.0}}}\n'
    )
    fields: tuple[FieldNote, ...] = (
        FieldNote("job_number, task_number, start_time", gettext_noop("job, array_task: a run is known by these")),
        FieldNote("start_time, end_time", gettext_noop("start, end; microseconds or seconds; start 0: it never ran")),
        FieldNote("slots", gettext_noop("cpus")),
        FieldNote("usage.eusage.maxvmem, in 9.0 usage.usage", gettext_noop("mem_mb, the most it used")),
        FieldNote("owner, group, project", gettext_noop("user, group, project")),
        FieldNote("qname", gettext_noop("queue")),
        FieldNote("pe_taskid, or submission_time 0", gettext_noop("a slave task: not counted beside its job")),
        FieldNote("failed", gettext_noop("counted nevertheless; 24 and 25 were rescheduled and run again")),
    )
    needs_zone = False
    is_listing = False

    def sniff(self, head: bytes) -> bool:
        line = next((raw_line for raw_line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n") if raw_line.strip()), b"")
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            return False
        return isinstance(value, dict) and all(name in value for name in _NEEDED) and "type" not in value

    def parse(self, stream: BinaryIO, reading: Reading, *, resume: Mapping[str, Any] | None = None) -> Iterator[Parsed]:
        """Parse lines; each is one run of a job, rejected individually."""
        return parse_lines(stream, _Reader(), resume)


class _Reader(SingleLines):
    def take(self, text: str, line: int, notes: Notes) -> Rows:
        value = loaded(text)
        if not isinstance(value, dict):
            raise BadRecord("not_an_object", "A run is a JSON object.")
        if "type" in value:
            raise BadRecord("reporting_line", "It is a line of reporting.jsonl: import accounting.jsonl.")
        row = row_of(_run(value), notes)
        return [(line, row)] if row else []


def _run(value: dict[str, Any]) -> Run:
    for name in _NEEDED:
        if name == "submission_time" and value.get("start_time"):
            continue
        if value.get(name) is None:
            raise BadRecord("missing_field", f"{name} is missing: the line is of another format, or damaged.")
    job = _text(value, "job_number")
    if not (job.isascii() and job.isdigit() and len(job) <= 19):
        raise BadRecord("bad_job", f"job_number is {shown(job)}, which is not a whole number.")
    return Run(
        job=job,
        task=_text(value, "task_number"),
        owner=_text(value, "owner"),
        group=_text(value, "group"),
        project=_text(value, "project"),
        queue=_text(value, "qname"),
        submitted=_text(value, "submission_time"),
        started=_text(value, "start_time"),
        ended=_text(value, "end_time") or "0",
        slots=_text(value, "slots"),
        pe=_text(value, "granted_pe"),
        pe_task=_text(value, "pe_taskid") or _text(value, "pe_task_id"),
        category=_text(value, "category"),
        failed=_text(value, "failed"),
        maxvmem=_maxvmem(value),
    )


def _text(value: Mapping[str, Any], name: str) -> str:
    """A text or number of an object as text; empty if it is missing or something else."""
    text = value.get(name)
    if isinstance(text, str):
        return text
    return repr(text) if type(text) in (int, float) else ""


def _maxvmem(value: Mapping[str, Any]) -> str:
    """Of the container that the execution daemon fills, which is eusage since 9.1; 0 if it wasn't recorded."""
    containers = value.get("usage")
    if not isinstance(containers, dict):
        return "0"
    usage = next((each for each in map(containers.get, ("eusage", "usage")) if isinstance(each, dict)), {})
    return _text(usage, "maxvmem") or "0"
