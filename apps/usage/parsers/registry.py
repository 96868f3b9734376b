"""Registry of accounting formats by name, including formats of installed packages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from apps.core.errors import Invalid
from apps.engine.installed import Installed
from apps.usage.parsers.apel import Apel
from apps.usage.parsers.base import (
    Collector,
    Parsed,
    Reading,
)
from apps.usage.parsers.flux import Flux
from apps.usage.parsers.gridengine import GridEngine
from apps.usage.parsers.gridengine_jsonl import GridEngineJsonl
from apps.usage.parsers.gridengine_queue import GridEngineQueue
from apps.usage.parsers.htcondor import HTCondor
from apps.usage.parsers.lsf import Lsf
from apps.usage.parsers.ogf_ur import OgfUsageRecord
from apps.usage.parsers.package_formats import load_package_formats
from apps.usage.parsers.pbs import Pbs
from apps.usage.parsers.records_json import Ndjson
from apps.usage.parsers.sacct import Sacct
from apps.usage.parsers.sacct_json import SacctJson
from apps.usage.parsers.slurm_queue import SlurmQueue
from apps.usage.parsers.swf import Swf

AUTO = "auto"
# In the order of display and of sniffing: each recognises only files that no other does.
_COLLECTORS: tuple[Collector, ...] = (
    Flux(),
    GridEngine(),
    GridEngineJsonl(),
    GridEngineQueue(),
    HTCondor(),
    Lsf(),
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
FORMATS: dict[str, Collector] = {**_OURS, **_PACKAGE_FORMATS.objects}


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
    return next((other for other in FORMATS.values() if other.name != collector.name and other.sniff(head)), None)


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
