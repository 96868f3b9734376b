"""Parse APEL's messages about single jobs: `Key: value` lines, records separated by %%.

The service level is the speed of a site, not of a job. It becomes a note of the import, for setting the site's speed
factor, and changes no amounts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from django.utils.translation import gettext_noop

from apps.core.errors import Invalid
from apps.usage.parsers.base import FieldNote, Parsed, Reading, RecordRow, excerpt
from apps.usage.parsers.charged_spans import charged_span
from apps.usage.parsers.field_values import BadRecord, amount, checked, if_readable, shown
from apps.usage.parsers.instants import epoch
from apps.usage.parsers.lines import Notes, Rows, parse_lines

SEPARATOR = "%%"
_HEADER = re.compile(r"APEL-([a-z-]+)-message:\s*v(\d+(?:\.\d+)?)\s*", re.IGNORECASE | re.ASCII)
_JOBS = "individual-job"
_PAIR = re.compile(r"([A-Za-z][A-Za-z0-9_]{0,63})\s*:\s*(.*)", re.ASCII)
_MOST_RECORD_KEYS = 64
_MOST_VALUE = 2_000  # characters; longer than any that a record may have
_USED = frozenset(
    [
        *("Site", "SubmitHost", "MachineName", "Queue", "LocalJobId", "LocalUserId", "GlobalUserName", "FQAN", "VO"),
        *("WallDuration", "Processors", "NodeCount", "StartTime", "EndTime", "MemoryReal"),
        *("ServiceLevelType", "ServiceLevel"),
    ]
)
_NOT_GIVEN = ("", "none", "null")
_MOST_SPEEDS = 50  # more are counted together; a file of one site has a few


class Apel:
    """APEL individual job messages."""

    name = "apel"
    label = gettext_noop("APEL individual job messages")
    extensions: tuple[str, ...] = ()
    reference = "https://github.com/apel/apel"
    sample = (
        "APEL-individual-job-message: v0.3\n"
        "Site: SITE-A\nSubmitHost: ce1.example.org:8443/batch-long\nMachineName: batch.example.org\nQueue: long\n"
        "LocalJobId: 17\nLocalUserId: cms001\nGlobalUserName: /DC=org/DC=example/CN=Ada\n"
        "FQAN: /cms/Role=production/Capability=NULL\nVO: cms\n"
        "WallDuration: 3600\nCpuDuration: 14100\nProcessors: 4\nNodeCount: 1\n"
        "StartTime: 1767225600\nEndTime: 1767229200\nMemoryReal: 2097152\n"
        "ServiceLevelType: hepscore23\nServiceLevel: 12.5\n%%\n"
    )
    fields: tuple[FieldNote, ...] = (
        FieldNote("LocalJobId, StartTime", gettext_noop("job, start: a job is known by these")),
        FieldNote("StartTime, EndTime, WallDuration", gettext_noop("start, end; the duration counts, up to the end")),
        FieldNote("Processors, else 1", gettext_noop("cpus")),
        FieldNote("NodeCount", gettext_noop("nodes")),
        FieldNote("MemoryReal (KB)", gettext_noop("mem_mb")),
        FieldNote("LocalUserId, GlobalUserName, FQAN", gettext_noop("user, dn, fqan")),
        FieldNote("VO, else the first part of the FQAN", gettext_noop("group")),
        FieldNote("Site; MachineName, else SubmitHost; Queue", gettext_noop("site; cluster; queue")),
        FieldNote("ServiceLevelType, ServiceLevel", gettext_noop("noted: the site's speed")),
    )
    needs_zone = False
    is_listing = False

    def sniff(self, head: bytes) -> bool:
        return head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(b"apel-")

    def parse(self, stream: BinaryIO, reading: Reading, *, resume: Mapping[str, Any] | None = None) -> Iterator[Parsed]:
        """Parse records; each is rejected individually.

        Raises:
            Invalid: the file has no header of individual job messages, e.g. because it has summaries.
        """
        return parse_lines(stream, _Reader(), resume)


class _Reader:
    """Collects the lines of a record. `_bad`: the first problem of the current record."""

    def __init__(self) -> None:
        self._has_header = False
        self._line = 0
        self._fields: dict[str, str] = {}
        self._n_unused = 0
        self._bad: tuple[str, str] | None = None
        self._is_refused = False  # one of its lines was too long

    def remember(self) -> dict[str, Any]:
        gathered = {"line": self._line, "fields": dict(self._fields), "unused": self._n_unused}
        gathered |= {"bad": self._bad, "refused": self._is_refused}
        return {"header": self._has_header, **gathered}

    def recall(self, remembered: Mapping[str, Any]) -> None:
        if remembered:
            self._has_header, self._line = remembered["header"], remembered["line"]
            self._fields, self._is_refused = dict(remembered["fields"]), remembered["refused"]
            self._bad = tuple(remembered["bad"]) if remembered["bad"] else None
            self._n_unused = remembered.get("unused", 0)

    def take(self, text: str, line: int, notes: Notes) -> Rows:
        text = text.strip()
        header = _HEADER.fullmatch(text)
        if header:
            kind = header[1]
            if kind.lower() != _JOBS:
                raise Invalid(
                    f"Line {line} begins a message of kind {excerpt(kind)!r}, which has no single jobs. "
                    "Ask the site for individual job messages.",
                    code="not_jobs",
                )
            self._has_header = True
            return self.finish(notes)
        if not self._has_header:
            raise Invalid(
                f"Line {line} is {excerpt(text)!r}: the first line must be 'APEL-individual-job-message: v0.3'.",
                code="no_header",
            )
        if text == SEPARATOR:
            return self.finish(notes)
        self._line = self._line or line
        self._keep(text)
        return []

    def skip(self, line: int) -> None:
        self._line = self._line or line
        self._is_refused = True

    def _keep(self, text: str) -> None:
        pair = _PAIR.fullmatch(text)
        if pair is None:
            self._bad = self._bad or ("bad_fields", f"It contains {shown(text)}; lines look like 'Key: value'.")
        elif pair[1] not in _USED:
            self._n_unused += 1
        elif pair[1] in self._fields:
            self._bad = self._bad or ("duplicate_key", f"{pair[1]} is given twice.")
        else:
            self._fields[pair[1]] = pair[2].strip()[:_MOST_VALUE]
        if len(self._fields) + self._n_unused > _MOST_RECORD_KEYS:
            self._bad = self._bad or ("too_large", f"It has over {_MOST_RECORD_KEYS} lines; is a %% missing?")

    def finish(self, notes: Notes) -> Rows:
        line, fields, bad, is_refused = self._line, self._fields, self._bad, self._is_refused
        is_empty = not (fields or bad or self._n_unused)
        self._line, self._fields, self._bad, self._is_refused = 0, {}, None, False
        self._n_unused = 0
        if is_refused or is_empty:
            return []
        if bad:
            raise BadRecord(*bad, line)
        try:
            return [(line, _row(fields, notes))]
        except BadRecord as wrong:
            raise BadRecord(wrong.code, wrong.message, line) from wrong


def _row(fields: dict[str, str], notes: Notes) -> RecordRow:
    start, end, wall = (fields.get(name, "") for name in ("StartTime", "EndTime", "WallDuration"))
    given_at = epoch("StartTime", start) if start else None
    end_at = epoch("EndTime", end) if end else None
    wall_s = None
    if wall:
        needs_wall = given_at is None or end_at is None
        wall_s = amount("WallDuration", wall) if needs_wall else _duration_if_readable(wall, notes)
    if not fields.get("LocalJobId"):
        raise BadRecord("missing_field", "LocalJobId is missing.")
    cpus = _amount(fields, "Processors")
    if not cpus:
        notes["processors_unknown"] += 1
    cpus = cpus or 1.0
    start_at, end_at = charged_span(given_at, end_at, wall_s, cpus=cpus, notes=notes)
    row = checked(
        RecordRow(
            job=fields["LocalJobId"],
            user=_given(fields, "LocalUserId"),
            group=_group(fields),
            dn=_given(fields, "GlobalUserName"),
            fqan=_given(fields, "FQAN"),
            submit_at=given_at or start_at,
            start_at=start_at,
            end_at=end_at,
            cpus=cpus,
            nodes=if_readable(lambda: _amount(fields, "NodeCount"), 0.0, notes, "NodeCount"),
            mem_mb=if_readable(lambda: _amount(fields, "MemoryReal"), 0.0, notes, "MemoryReal") / 1024,
            queue=_given(fields, "Queue"),
            site=_given(fields, "Site"),
            cluster=_given(fields, "MachineName") or _given(fields, "SubmitHost"),
        ),
        notes,
    )
    _note_speed(fields, row.site, notes)
    return row


def _duration_if_readable(text: str, notes: Notes) -> float | None:
    return if_readable(lambda: amount("WallDuration", text), None, notes, "WallDuration")


def _given(fields: dict[str, str], name: str) -> str:
    value = fields.get(name, "")
    return "" if value.lower() in _NOT_GIVEN else value


def _amount(fields: dict[str, str], name: str) -> float:
    value = _given(fields, name)
    return amount(name, value) if value else 0.0


def _group(fields: dict[str, str]) -> str:
    fqan = _given(fields, "FQAN")
    return _given(fields, "VO") or (fqan.split("/")[1] if fqan.startswith("/") else "")


def _note_speed(fields: dict[str, str], site: str, notes: Notes) -> None:
    """Count jobs by site and service level, e.g. "service_level SITE-A hepscore23 12.5"."""
    level = _given(fields, "ServiceLevel")
    if not level:
        return
    unit = _given(fields, "ServiceLevelType")
    value = if_readable(lambda: amount("ServiceLevel", level), None, notes, "ServiceLevel")
    if value is None:
        return
    name = f"service_level {site[:64]} {excerpt(unit)[:32]} {value:g}".replace("  ", " ")
    is_known = name in notes or sum(note.startswith("service_level ") for note in notes) < _MOST_SPEEDS
    notes[name if is_known else "service_level others"] += 1
