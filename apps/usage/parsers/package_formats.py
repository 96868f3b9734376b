"""Accounting formats of installed packages, validated with their samples."""

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


def _check(name: str, candidate: Any) -> Collector:
    """Validate a format: it must be complete, recognise its sample, and parse it without rejecting a line.

    Raises:
        ValueError: with the reason.
    """
    require_name(candidate, name)
    require_texts(candidate, ("label", "reference", "sample"))
    if not all(isinstance(getattr(candidate, each, None), bool) for each in ("needs_zone", "is_listing")):
        raise ValueError("its needs_zone and is_listing must be True or False")
    for each, kind in (("extensions", str), ("fields", FieldNote)):
        value = getattr(candidate, each, None)
        if not isinstance(value, tuple) or not all(isinstance(item, kind) for item in value):
            raise ValueError(f"its {each} must be a tuple of {kind.__name__}")
    if not (callable(getattr(candidate, "sniff", None)) and callable(getattr(candidate, "parse", None))):
        raise ValueError("it needs the methods sniff and parse")
    checked, sample = PackageFormat(candidate), candidate.sample.encode()
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
