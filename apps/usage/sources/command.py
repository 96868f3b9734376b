"""Collect usage from commands of a scheduler: accounting by time window, or a listing of running and pending jobs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from apps.core.addresses import allowed_targets
from apps.core.errors import Invalid, Unavailable
from apps.core.operator_commands import OWN_CHECKS
from apps.core.outbound_proxy import EXAMPLE, parse_proxy
from apps.usage.models import Source
from apps.usage.parsers.base import Reading
from apps.usage.parsers.registry import AUTO, format_of, parse_checked
from apps.usage.sources.pieces import (
    Clock,
    Cursor,
    Piece,
    Progress,
    listing_piece,
    parse_listing,
    refuse_cut_output,
)
from apps.usage.sources.programs import JSON_OPTION, SHELLS, run_program

WIDEST = timedelta(days=1)  # per call: bounds the output when much is to be collected
FROM, TO = "{from}", "{to}"  # start and end of the window, in the zone of the source: 2026-01-31T12:00:00
FROM_S, TO_S = "{from_s}", "{to_s}"  # the same in seconds since 1970
PLACEHOLDERS = (FROM, TO, FROM_S, TO_S)
_HEAD = 64 * 1024
_TARGET = re.compile(r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}|unix:/[\x21-\x7e]+")


class Window(NamedTuple):
    from_at: datetime
    to_at: datetime


def windows(cursor: Mapping[str, Any], terms: Mapping[str, Any], at: datetime) -> Iterator[Window]:
    """Time windows from the cursor to `at`, mostly a day each; the first starts `look_back_s` before `at`."""
    to_s = cursor.get("to_s")
    if to_s is None:
        begin = at - timedelta(seconds=terms["look_back_s"])
    else:
        begin = min(datetime.fromtimestamp(to_s, UTC), at) - timedelta(seconds=terms["overlap_s"])
    begin = begin.replace(microsecond=0)
    while begin < at:
        end = min(begin + max(WIDEST, timedelta(seconds=2 * terms["overlap_s"])), at)
        yield Window(begin, end)
        if end >= at:
            return
        begin = end


def has_window_arguments(arguments: Sequence[str]) -> bool:
    return any(placeholder in argument for argument in arguments for placeholder in PLACEHOLDERS)


def collect_pieces(source: Source, at: datetime, clock: Clock) -> Iterator[Piece]:
    """Collect a source of kind `command`. Times are in its zone, or UTC: the program runs in that zone.

    The cursor moves past a window with its last piece, so that an incomplete answer is requested again.
    """
    terms, zone = source.collecting, ZoneInfo(source.time_zone or "UTC")
    progress, reading = Progress(dict(source.cursor)), Reading(at, zone, source.billing)
    if not has_window_arguments(terms["command"]):
        yield from _run_command(terms, terms["command"], terms["format"], reading, progress)
    else:
        for window in windows(progress.cursor, terms, at):
            yield from _run_command(
                terms, fill_arguments(terms["command"], window, zone), terms["format"], reading, progress
            )
            yield progress.step(to_s=int(window.to_at.timestamp()))
    yield from collect_listing(source, clock, progress.cursor)


def fill_arguments(arguments: Sequence[str], window: Window, zone: ZoneInfo) -> list[str]:
    """Replace placeholders in the arguments by the times of the window."""
    values = {}
    for (placeholder, placeholder_s), instant in zip(((FROM, FROM_S), (TO, TO_S)), window, strict=True):
        values[placeholder] = f"{instant.astimezone(zone):%Y-%m-%dT%H:%M:%S}"
        values[placeholder_s] = str(int(instant.timestamp()))
    filled = []
    for argument in arguments:
        for placeholder, value in values.items():
            argument = argument.replace(placeholder, value)
        filled.append(argument)
    return filled


def collect_listing(source: Source, clock: Clock, cursor: Cursor) -> Iterator[Piece]:
    """Collect the listing of open jobs, if a source has a command for it besides its accounting.

    It runs last, with its own time, so that it overrides accounting: jobs that accounting reports as running for ever
    are closed.
    """
    terms, zone = source.collecting, ZoneInfo(source.time_zone or "UTC")
    if terms.get("listing"):
        yield from _run_command(terms, terms["listing"], AUTO, Reading(clock(), zone, source.billing), Progress(cursor))


def _run_command(
    terms: Cursor, arguments: Sequence[str], format: str, reading: Reading, progress: Progress
) -> Iterator[Piece]:
    """Run one command and parse its output. An empty output is an error for JSON, and for a listing, which always has a
    header.

    Raises:
        Unavailable: the output breaks off; nothing of it is stored.
    """
    program = arguments[0].rpartition("/")[2]
    zone = reading.zone.key if reading.zone else "UTC"
    most_bytes, timeout_s = int(settings.FAIRSHARE_UPLOAD_BYTES), float(terms["timeout_s"])
    with run_program(arguments, time_zone=zone, timeout_s=timeout_s, most_bytes=most_bytes) as stream:
        head = stream.read(_HEAD)
        stream.seek(0)
        if not head:
            if JSON_OPTION in arguments:
                raise Unavailable(f"{program} wrote nothing, which is not JSON: it is run again.", code="cut_off")
            if has_window_arguments(terms.get("command", [])) and arguments is not terms.get("listing"):
                return
            raise Invalid(f"{program} wrote nothing: even a listing without jobs has a header.", code="empty_answer")
        collector = format_of(format, head)
        if collector.is_listing:
            parsed = parse_listing(collector, stream, reading)
            yield listing_piece(collector, parsed, reading.at, progress.cursor, program)
        else:
            refuse_cut_output(parse_checked(collector, stream, reading, head=head), program)
            stream.seek(0)
            for parsed in parse_checked(collector, stream, reading, head=head):
                yield progress.add(parsed, program, collector)


@register(OWN_CHECKS)
def check_collecting(app_configs: Sequence[AppConfig] | None, **_more: Any) -> list[CheckMessage]:
    return [*_targets(), *_programs(), *_folders()]


def _targets() -> Iterator[CheckMessage]:
    for entry in sorted(allowed_targets()):
        if not _TARGET.fullmatch(entry):
            message = f"FAIRSHARE_OUTBOUND_ALLOW contains {entry!r}, which is not a single target."
            yield Error(
                message, hint="Write host:port, [IPv6]:port or unix:/path; no networks and no *.", id="usage.E001"
            )
    file = settings.FAIRSHARE_OUTBOUND_CA_FILE
    if file and not os.access(file, os.R_OK):
        yield Error(f"FAIRSHARE_OUTBOUND_CA_FILE={file} can't be read.", id="usage.E002")
    if settings.FAIRSHARE_OUTBOUND_PROXY:
        try:
            parse_proxy(settings.FAIRSHARE_OUTBOUND_PROXY)
        except ValueError as error:
            yield Error(f"FAIRSHARE_OUTBOUND_PROXY {error}.", hint=f"Example: {EXAMPLE}", id="usage.E005")


def _programs() -> Iterator[CheckMessage]:
    for path in settings.FAIRSHARE_COLLECT_COMMANDS:
        if not os.path.isabs(path) or Path(path).name in SHELLS:
            hint = "Write the absolute path of a program that is not a shell, such as /usr/bin/sacct."
            yield Error(f"FAIRSHARE_COLLECT_COMMANDS contains {path!r}.", hint=hint, id="usage.E003")


def _folders() -> Iterator[CheckMessage]:
    for path in settings.FAIRSHARE_COLLECT_FOLDERS:
        if not os.path.isabs(path) or Path(path).resolve() == Path("/"):
            hint = "Write the absolute path of a folder that contains accounting files and nothing secret."
            yield Error(f"FAIRSHARE_COLLECT_FOLDERS contains {path!r}.", hint=hint, id="usage.E004")
