"""What schedulers print, read back: which listing it is, and every job of it."""

from __future__ import annotations

from apps.engine.errors import BadCase
from apps.engine.jobs.printed.listings import (
    Printed,
    PrintedJob,
    is_qstat,
    is_sprio,
    read_qstat,
    read_qstat_xml,
    read_sprio,
)

__all__ = ["Printed", "PrintedJob", "read_printed"]


def read_printed(text: str) -> Printed:
    """The jobs of a `qstat` or `sprio` listing; BadCase with line and remedy for what is neither."""
    if text.lstrip().startswith("<"):
        return read_qstat_xml(text.lstrip())
    lines = [line.rstrip("\r") for line in text.split("\n")]
    first = next((number for number, line in enumerate(lines, start=1) if line.strip()), None)
    if first is None:
        raise BadCase("nothing is here; paste a listing with its header, or a case as JSON", place="text")
    header = lines[first - 1]
    if is_qstat(header):
        return read_qstat(lines)
    if is_sprio(header):
        return read_sprio(lines)
    message = "no listing begins like this; paste qstat -ext -urg -pri, qstat -xml, sprio -l or a case as JSON"
    raise BadCase(message, place=f"line {first}")
