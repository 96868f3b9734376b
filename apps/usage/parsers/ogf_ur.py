"""Parse OGF Usage Record 1.0 (GFD.98) in XML, and EMI's compute records, which extend it.

Accepts UsageRecords of JobUsageRecord elements, or one alone. Namespaces are ignored; names are compared without
prefix. recordId is the key and createTime the revision: the same record counts once, and a later one replaces it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, BinaryIO
from zoneinfo import ZoneInfo

from django.utils.translation import gettext_noop

from apps.core.errors import Invalid
from apps.usage.parsers.base import MOST_RATE, FieldNote, Parsed, Reading, RecordRow, microseconds
from apps.usage.parsers.charged_spans import charged_span
from apps.usage.parsers.field_values import (
    LONGEST_OF_FIELDS,
    BadRecord,
    amount,
    checked,
    if_readable,
    note_ignored,
    shown,
)
from apps.usage.parsers.instants import iso, iso_duration_s
from apps.usage.parsers.lines import Notes
from apps.usage.parsers.xml_records import Node, XmlLimits, parse_xml

PAYLOADS = "payloads_skipped"
_RECORDS = frozenset({"JobUsageRecord", "UsageRecord"})
_READ = frozenset(
    (
        *("RecordIdentity", "JobIdentity", "LocalJobId", "GlobalJobId", "UserIdentity", "LocalUserId", "LocalGroup"),
        *("GlobalUserName", "GlobalUserId", "Group", "GroupAttribute", "VO", "Name", "VOName", "ReportableVOName"),
        *("Status", "StartTime", "EndTime", "WallDuration", "TimeInstant", "Processors", "NodeCount", "Memory"),
        *("Charge", "MachineName", "Queue", "Site", "ProjectName", "Resource"),
    )
)
_OPEN_STATES = {"queued": "pending", "held": "pending", "started": "running", "suspended": "running"}
_STATUSES = frozenset({*_OPEN_STATES, "completed", "failed", "aborted", "exited", ""})
_MEMORY_BYTES = {"b": 1, "kb": 1024, "mb": 1024**2, "gb": 1024**3, "tb": 1024**4, "pb": 1024**5}
_WALL = "WallDuration"
_LIMITS = XmlLimits(kept=_READ)
_NEWER = re.compile(rb"schemas\.ogf\.org/urf/20(?:1[3-9]|[2-9]\d)/[\w/]*")
_HEAD = 64 * 1024
_PROJECT = "projectname"  # type of an attribute of a group, in CAR
_PAYLOAD = "payload"  # what ran in a pilot, whose own record counts


class OgfUsageRecord:
    """OGF Usage Record 1.0."""

    name = "ogf-ur"
    label = gettext_noop("OGF Usage Record 1.0 (XML)")
    extensions: tuple[str, ...] = (".xml",)
    reference = "https://www.ogf.org/documents/GFD.98.pdf"
    sample = """<?xml version="1.0" encoding="UTF-8"?>
<UsageRecords xmlns="http://schema.ogf.org/urf/2003/09/urf" xmlns:urf="http://schema.ogf.org/urf/2003/09/urf">
  <JobUsageRecord>
    <RecordIdentity urf:recordId="ce1.example.org/17/1" urf:createTime="2026-01-01T02:05:00Z"/>
    <JobIdentity><GlobalJobId>https://ce1.example.org/17</GlobalJobId><LocalJobId>17</LocalJobId></JobIdentity>
    <UserIdentity>
      <LocalUserId>ada</LocalUserId><GlobalUserName>/DC=org/DC=example/CN=Ada</GlobalUserName>
    </UserIdentity>
    <Status>completed</Status>
    <WallDuration>PT1H</WallDuration><CpuDuration>PT3H55M</CpuDuration>
    <StartTime>2026-01-01T01:00:00Z</StartTime><EndTime>2026-01-01T02:00:00Z</EndTime>
    <MachineName>cluster1.example.org</MachineName><Queue>grid</Queue><ProjectName>cms</ProjectName>
    <Processors>4</Processors><NodeCount>1</NodeCount><Charge>4</Charge>
  </JobUsageRecord>
</UsageRecords>
"""
    fields: tuple[FieldNote, ...] = (
        FieldNote("RecordIdentity recordId, createTime", gettext_noop("job: the key; revision")),
        FieldNote("JobIdentity LocalJobId, GlobalJobId", gettext_noop("job, where no recordId is given")),
        FieldNote("StartTime, EndTime, WallDuration", gettext_noop("start, end; the duration counts, up to the end")),
        FieldNote("TimeInstant type=submit", gettext_noop("submit")),
        FieldNote("Processors, else NodeCount, else 1", gettext_noop("cpus")),
        FieldNote("NodeCount", gettext_noop("nodes")),
        FieldNote("Memory", gettext_noop("mem_mb, in the storageUnit it names")),
        FieldNote("Charge", gettext_noop("billing: spread evenly over the run")),
        FieldNote("LocalUserId, GlobalUserName", gettext_noop("user, dn")),
        FieldNote("ProjectName, or GroupAttribute of this type", gettext_noop("project")),
        FieldNote("Group, VO, ReportableVOName, VOName or LocalGroup", gettext_noop("group")),
        FieldNote("MachineName, Queue, Site", gettext_noop("cluster, queue, site")),
        FieldNote("Status", gettext_noop("queued, held: pending; started, suspended: running; else finished")),
    )
    needs_zone = False
    is_listing = False

    def sniff(self, head: bytes) -> bool:
        return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") and b"UsageRecord" in head

    def parse(self, stream: BinaryIO, reading: Reading, *, resume: Mapping[str, Any] | None = None) -> Iterator[Parsed]:
        """Parse records; each is rejected individually.

        Raises:
            Invalid: the XML has a document type, or is of version 2.0.
        """
        if version := _NEWER.search(stream.read(_HEAD)):
            raise Invalid(
                f"The file is OGF Usage Record 2.0 (namespace {version[0].decode()}), which isn't read. Export it as "
                "Usage Record 1.0, or send its records as JSON (docs: Usage, ndjson).",
                code="newer_version",
            )
        stream.seek(0)
        take = lambda record, notes: _row(record, reading.zone, notes)  # noqa: E731
        return parse_xml(stream, _RECORDS, take, resume, limits=_LIMITS)


def _row(record: Node, zone: ZoneInfo | None, notes: Notes) -> RecordRow | None:
    if _is_payload(record):
        notes[PAYLOADS] += 1
        return None
    status = record.get("Status").lower()
    if status not in _STATUSES:
        notes["status_unknown"] += 1
    state = _OPEN_STATES.get(status, "finished")
    identity = record.find("RecordIdentity")
    attributes = identity.attributes if identity else {}
    submit_at = if_readable(lambda: _submitted(record, zone), None, notes, "TimeInstant")
    cpus = _processors(record, notes)
    given_at, end_at, wall_s = _times(record, state, zone, notes, has_submit=submit_at is not None)
    start_at, end_at = charged_span(given_at, end_at, wall_s, cpus=cpus, notes=notes)
    created = attributes.get("createTime", "").strip()
    row = RecordRow(
        job=_job(record, attributes.get("recordId", "").strip()),
        user=record.get("UserIdentity", "LocalUserId"),
        dn=record.get("UserIdentity", "GlobalUserName") or record.get("UserIdentity", "GlobalUserId"),
        group=_group(record),
        project=record.get("ProjectName") or _project_of_group(record),
        state=state,
        submit_at=submit_at or given_at or start_at,
        start_at=None if state == "pending" else start_at,
        end_at=end_at if state == "finished" else None,
        cpus=cpus,
        nodes=if_readable(lambda: _amount(record, "NodeCount"), 0.0, notes, "NodeCount"),
        mem_mb=if_readable(lambda: _mem_mb(record), 0.0, notes, "Memory"),
        queue=record.get("Queue"),
        cluster=record.get("MachineName"),
        site=record.get("Site"),
        revision=if_readable(lambda: _revision(created, zone), 0, notes, "createTime"),
    )
    return checked(row._replace(billing=_billing(record, row, notes)), notes)


def _job(record: Node, record_id: str) -> str:
    """The recordId as job id; one that is too long is replaced by its digest."""
    job = record_id or record.get("JobIdentity", "LocalJobId") or record.get("JobIdentity", "GlobalJobId")
    most = LONGEST_OF_FIELDS["job"]
    if len(job) <= most:
        return job
    digest = hashlib.sha256(job.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{job[: most - len(digest) - 1]}~{digest}"


def _revision(created: str, zone: ZoneInfo | None) -> int:
    return max(microseconds(iso("createTime", created, zone or ZoneInfo("UTC"))), 0) if created else 0


def _times(
    record: Node, state: str, zone: ZoneInfo | None, notes: Notes, *, has_submit: bool
) -> tuple[datetime | None, datetime | None, float | None]:
    """Start, end and duration (s) as given; only an ended job has the last two."""
    start, end, wall = (record.get(name) for name in ("StartTime", "EndTime", "WallDuration"))
    if state == "pending" and has_submit:
        return None, None, None
    start_at = iso("StartTime", start, zone) if start else None
    if state != "finished":
        return start_at, None, None
    end_at = iso("EndTime", end, zone, not_before=start_at) if end else None
    if not wall:
        return start_at, end_at, None
    wall_s = _wall_s(wall) if not (start and end) else if_readable(lambda: _wall_s(wall), None, notes, _WALL)
    return start_at, end_at, wall_s


def _wall_s(text: str) -> float | None:
    return iso_duration_s(_WALL, text)


def _submitted(record: Node, zone: ZoneInfo | None) -> datetime | None:
    for instant in record.all("TimeInstant"):
        if instant.attributes.get("type", "").lower() == "submit":
            return iso("TimeInstant submit", instant.text.strip(), zone)
    return None


def _group(record: Node) -> str:
    user = record.find("UserIdentity")
    if user is None:
        return ""
    of_gratia = user.get("ReportableVOName") or _first_part(user.get("VOName"))
    of_voms = user.get("Group") or user.get("VO", "Name") or user.get("VO")
    return of_voms or of_gratia or user.get("LocalGroup")


def _project_of_group(record: Node) -> str:
    """The project that CAR writes as an attribute of the user's group."""
    user = record.find("UserIdentity")
    attributes = user.all("GroupAttribute") if user is not None else []
    named = (each.text.strip() for each in attributes if each.attributes.get("type", "").lower() == _PROJECT)
    return next(filter(None, named), "")


def _is_payload(record: Node) -> bool:
    """Whether Gratia reports what ran within a pilot: the pilot has a record of its own, of type Batch."""
    kinds = (each for each in record.all("Resource") if each.attributes.get("description") == "ResourceType")
    return any(each.text.strip().lower() == _PAYLOAD for each in kinds)


def _first_part(name: str) -> str:
    """The organisation of a name such as /cms/Role=production."""
    return name.split("/")[1] if name.startswith("/") else name


def _processors(record: Node, notes: Notes) -> float:
    processors = _amount(record, "Processors")
    if not processors:
        notes["processors_unknown"] += 1
    return processors or _amount(record, "NodeCount") or 1.0


def _amount(record: Node, name: str) -> float:
    text = record.get(name)
    return amount(name, text) if text else 0.0


def _mem_mb(record: Node) -> float:
    """The largest of several values: they are averages, maxima and parts of one job's memory."""
    largest = 0.0
    for memory in record.all("Memory"):
        unit = memory.attributes.get("storageUnit", "B").lower()
        if unit not in _MEMORY_BYTES:
            raise BadRecord("bad_fields", f"Memory has the unit {shown(unit)}; B, KB, MB, GB, TB or PB is read.")
        largest = max(largest, amount("Memory", memory.text.strip()) * _MEMORY_BYTES[unit] / 1024**2)
    return largest


def _billing(record: Node, row: RecordRow, notes: Notes) -> float:
    """Billing units per second, so that the whole run costs the charge."""
    charge = if_readable(lambda: _amount(record, "Charge"), 0.0, notes, "Charge")
    if not charge or row.start_at is None or row.end_at is None:
        return 0.0
    length_s = (row.end_at.astimezone(UTC) - row.start_at).total_seconds()
    if length_s <= 0:
        notes["charge_without_duration"] += 1
        return 0.0
    if charge / length_s > MOST_RATE:
        note_ignored(notes, "Charge")
        return 0.0
    return charge / length_s
