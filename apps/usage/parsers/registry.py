"""Registry of accounting formats by name, including formats of installed packages, which are validated with their
samples.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, BinaryIO, cast
from zoneinfo import ZoneInfo

import numpy as np

from apps.core.errors import DomainError, Invalid
from apps.engine.installed import Installed, load_installed, require_name, require_texts
from apps.usage.parsers.apel import Apel
from apps.usage.parsers.base import (
    COLUMNS,
    FIRST_US,
    LAST_US,
    NO_TIME,
    Collector,
    FieldNote,
    Parsed,
    Reading,
    RecordBatch,
)
from apps.usage.parsers.gridengine import GridEngine
from apps.usage.parsers.gridengine_jsonl import GridEngineJsonl
from apps.usage.parsers.gridengine_queue import GridEngineQueue
from apps.usage.parsers.ogf_ur import OgfUsageRecord
from apps.usage.parsers.pbs import Pbs
from apps.usage.parsers.records_json import Ndjson
from apps.usage.parsers.sacct import Sacct
from apps.usage.parsers.sacct_json import SacctJson
from apps.usage.parsers.slurm_queue import SlurmQueue
from apps.usage.parsers.swf import Swf

ENTRY_POINT_GROUP = "fairshare.accounting_formats"
_TRIAL = Reading(at=datetime(2100, 1, 1, tzinfo=UTC), zone=ZoneInfo("UTC"))
_AMOUNTS = ("cpus", "gpus", "nodes", "mem_mb", "billing")
_TIMES = ("submit_us", "start_us", "end_us")


@dataclass(frozen=True)
class PackageFormat:
    """Wraps a format of a package: errors in its code reject the file and name the format."""

    given: Collector

    def __getattr__(self, name: str) -> Any:
        return getattr(self.given, name)

    def sniff(self, head: bytes) -> bool:
        try:
            return self.given.sniff(head) is True
        except Exception:  # an error on any file that it does not recognise
            return False

    def parse(self, stream: BinaryIO, reading: Reading, *, resume: Mapping[str, Any] | None = None) -> Iterator[Parsed]:
        """Parse with the package's format and validate each piece.

        Raises:
            Invalid: `package_failed`: the package's code failed or returned something else than valid pieces.
        """
        try:
            for piece in self.given.parse(stream, reading, resume=resume):
                if problem := _problem(piece):
                    raise Invalid(f"The package of the format {self.given.name} gave {problem}.", code="package_failed")
                yield piece
        except DomainError:
            raise
        except Exception as error:
            message = f"The package of the format {self.given.name} failed: {type(error).__name__}: {error}."
            raise Invalid(message, code="package_failed") from error


@cache
def load_package_formats(ours: tuple[str, ...]) -> Installed[Collector]:
    """Formats of installed packages, and those rejected. ours: names that are already used."""
    return load_installed(ENTRY_POINT_GROUP, _check, is_taken=lambda name: name in (*ours, "auto"))


def _check(name: str, given: Any) -> Collector:
    """Validate a format: it must be complete, recognise its sample, and parse it without rejecting a line.

    Raises:
        ValueError: with the reason.
    """
    require_name(given, name)
    require_texts(given, ("label", "reference", "sample"))
    if not all(isinstance(getattr(given, each, None), bool) for each in ("needs_zone", "is_listing")):
        raise ValueError("its needs_zone and is_listing must be True or False")
    for each, kind in (("extensions", str), ("fields", FieldNote)):
        value = getattr(given, each, None)
        if not isinstance(value, tuple) or not all(isinstance(one, kind) for one in value):
            raise ValueError(f"its {each} must be a tuple of {kind.__name__}")
    if not (callable(getattr(given, "sniff", None)) and callable(getattr(given, "parse", None))):
        raise ValueError("it needs the methods sniff and parse")
    checked, sample = PackageFormat(given), given.sample.encode()
    if not checked.sniff(sample) or checked.sniff(b"") or checked.sniff(b"\0 no accounting\n"):
        raise ValueError("its sniff must recognise its sample, and neither an empty file nor other bytes")
    try:
        pieces = list(checked.parse(io.BytesIO(sample), _TRIAL))
    except DomainError as error:
        raise ValueError(f"its sample can't be read: {error.message}") from error
    if any(piece.rejections for piece in pieces) or not sum(len(piece.batch.start_us) for piece in pieces):
        raise ValueError("its sample must have records, and no line that is rejected")
    return cast(Collector, checked)


def _problem(piece: object) -> str:
    """What is invalid about a piece; empty if nothing is."""
    if not isinstance(piece, Parsed) or not isinstance(piece.batch, RecordBatch):
        return f"a {type(piece).__name__} in place of a piece of records"
    batch, pattern = piece.batch, RecordBatch.from_rows([])
    for name in COLUMNS:
        column = getattr(batch, name)
        if not isinstance(column, np.ndarray) or column.shape != batch.start_us.shape:
            return f"a column {name} of another length"
        if column.dtype.kind != getattr(pattern, name).dtype.kind:
            return f"a column {name} of another type"
    for name in _AMOUNTS:
        column = getattr(batch, name)
        if not (np.isfinite(column) & (column >= 0)).all():
            return f"a number in {name} that is below 0 or not finite"
    for name in _TIMES:
        column = getattr(batch, name)
        if not ((column == NO_TIME) | ((column >= FIRST_US) & (column <= LAST_US))).all():
            return f"a time in {name} that is not between 1970 and 2200"
    if ((batch.start_us != NO_TIME) & (batch.end_us != NO_TIME) & (batch.end_us < batch.start_us)).any():
        return "a record that ends before it starts"
    for name, names in (("who", batch.people), ("job_class", batch.job_classes)):
        column = getattr(batch, name)
        if not ((column >= 0) & (column < len(names))).all():
            return f"a code in {name} that names nothing"
    return ""


AUTO = "auto"
# In the order of display and of sniffing: each recognises only files that no other does.
_COLLECTORS: tuple[Collector, ...] = (
    GridEngine(),
    GridEngineJsonl(),
    GridEngineQueue(),
    Pbs(),
    Swf(),
    Sacct(),
    SacctJson(),
    SlurmQueue(),
    OgfUsageRecord(),
    Apel(),
    Ndjson(),
)
_OURS: dict[str, Collector] = {collector.name: collector for collector in _COLLECTORS}
_PACKAGE_FORMATS = load_package_formats(tuple(_OURS))
FORMATS: dict[str, Collector] = {**_OURS, **_PACKAGE_FORMATS.found}


def format_of(name: str, head: bytes) -> Collector:
    """Return the format of a name, or for "auto" the first that recognises the start of the unpacked file.

    Raises:
        Invalid: no such format.
    """
    if name == AUTO:
        for collector in FORMATS.values():
            if collector.sniff(head):
                return collector
        known = ", ".join(collector.label for collector in FORMATS.values())
        raise Invalid(f"The file's format isn't recognised: name it. Known are {known}.", code="unknown_format")
    if name not in FORMATS:
        raise Invalid(f"There is no format {name!r}; choose auto, {', '.join(FORMATS)}.", code="unknown_format")
    return FORMATS[name]


def parse_checked(
    collector: Collector, stream: BinaryIO, reading: Reading, *, head: bytes, resume: Mapping[str, Any] | None = None
) -> Iterator[Parsed]:
    """Parse a stream that begins with these bytes; refuse it early if it is of another known format.

    Raises:
        Invalid: `wrong_format`: no record is read, and another format recognises the file; or the format's own errors.
    """
    other = _looks_like(collector, head) if not resume else None
    try:
        for piece in collector.parse(stream, reading, resume=resume):
            if other is not None and piece.rejections and not len(piece.batch):
                raise _wrong_format(collector, other)
            yield piece
            other = None if len(piece.batch) else other
    except Invalid as error:
        if other is None or error.code in ("wrong_format", "package_failed"):
            raise
        raise _wrong_format(collector, other) from error
    if other is not None:
        raise _wrong_format(collector, other)


def _looks_like(collector: Collector, head: bytes) -> Collector | None:
    """Another format that recognises the start of a file that its own doesn't."""
    if collector.sniff(head):
        return None
    return next((one for one in FORMATS.values() if one.name != collector.name and one.sniff(head)), None)


def _wrong_format(collector: Collector, other: Collector) -> Invalid:
    message = (
        f"Nothing in the file can be read as {collector.name}. It looks like {other.name} ({other.label}): choose that "
        "format, or auto. Nothing was imported."
    )
    return Invalid(message, code="wrong_format")


def list_formats() -> list[Collector]:
    return list(FORMATS.values())


def installed_formats() -> Installed[Collector]:
    """Formats of installed packages (entry points `fairshare.accounting_formats`), and those rejected."""
    return _PACKAGE_FORMATS
