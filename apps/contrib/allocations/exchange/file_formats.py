"""File formats of allocations by name: how each is read and written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from apps.contrib.allocations.exchange import csv_file, document
from apps.contrib.allocations.exchange.lines import AllocationFile
from apps.core.errors import FieldProblem, Invalid
from apps.policies.formats.decoding import text_of
from apps.policies.models import Allocation


@dataclass(frozen=True)
class FileFormat:
    """read: of a text, with the problems of its lines. write: allocations with the paths of their entries."""

    name: str
    media_type: str
    read: Callable[[str], AllocationFile]
    write: Callable[[Iterable[tuple[Allocation, str]]], Iterator[str]]


FILE_FORMATS: Mapping[str, FileFormat] = {
    each.name: each
    for each in (
        FileFormat("csv", "text/csv", csv_file.read, csv_file.write),
        FileFormat("yaml", "application/yaml", document.read_yaml, document.write_yaml),
        FileFormat("json", "application/json", document.read_json, document.write_json),
    )
}


def read_file(format: str, content: bytes) -> AllocationFile:
    """Read a file in a format; raises Invalid for an unknown format and for a file that can't be read."""
    if format not in FILE_FORMATS:
        message = f"{format[:40]!r} is unknown; known are {', '.join(FILE_FORMATS)}"
        raise Invalid(f"format {message}.", code="unknown_format", fields=[FieldProblem("format", message)])
    return FILE_FORMATS[format].read(text_of(content))


def guess_format(text: str) -> str:
    """The format of a text by its first character that counts."""
    head = text.lstrip()[:1]
    if head in ("{", "["):
        return "json"
    first_line = text.lstrip().partition("\n")[0]
    return "csv" if any(mark in first_line for mark in ",;\t") else "yaml"
