"""Our own records as a file: one JSON object a line, by the rules of a push."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import orjson

from apps.usage.parsers.base import FieldNote, Parsed, Reading
from apps.usage.parsers.lines import Notes, Rows, SingleLines, parse_lines
from apps.usage.parsers.records_json import parse_line


class Ndjson:
    """One JSON object a line."""

    name = "ndjson"
    label = "Records as JSON, one a line (NDJSON)"
    extensions: tuple[str, ...] = (".ndjson", ".jsonl")
    reference = "https://github.com/ndjson/ndjson-spec"
    sample = (
        '{"job": "17", "user": "ada", "group": "physics", "start": "2026-01-01T01:00:00Z", '
        '"end": "2026-01-01T02:00:00Z", "cpus": 4, "gpus": 1, "queue": "long"}\n'
        '{"job": "18", "user": "ben", "state": "running", "start": "2026-01-01T01:30:00Z", "cpus": 1}\n'
    )
    fields: tuple[FieldNote, ...] = (
        FieldNote("job, array_task, submit, restart", "a record is known by these, with its source and cluster"),
        FieldNote("user, group, dn, fqan, project", "whose it is; user must be there"),
        FieldNote("state", "finished (if not given), running, pending or withdrawn"),
        FieldNote("submit, start, end", "RFC 3339; without an offset in the source's zone"),
        FieldNote("cpus, gpus, nodes, mem_mb, billing", "amounts while it runs; billing in units a second"),
        FieldNote("requested_s", "how long it may run"),
        FieldNote("queue, partition, qos; site, cluster", "its class; where it ran"),
        FieldNote("revision", "the higher one replaces the lower"),
    )
    needs_zone = False
    is_listing = False

    def sniff(self, head: bytes) -> bool:
        line = next((one for one in head.removeprefix(b"\xef\xbb\xbf").split(b"\n") if one.strip()), b"")
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            return False
        return isinstance(value, dict) and "job" in value and ("user" in value or "cpus" in value)

    def parse(self, stream: BinaryIO, reading: Reading, *, resume: Mapping[str, Any] | None = None) -> Iterator[Parsed]:
        """A line is a record, refused by itself."""
        return parse_lines(stream, _Reader(reading), resume)


class _Reader(SingleLines):
    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def take(self, text: str, line: int, notes: Notes) -> Rows:
        row = parse_line(text.encode("utf-8", "surrogateescape"), zone=self._reading.zone)
        return [(line, row)]
