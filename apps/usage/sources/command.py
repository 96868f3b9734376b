"""A scheduler's own commands: accounting asked for window by window, or a listing of what runs and waits now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from django.conf import settings

from apps.core.errors import Invalid
from apps.usage.models import Source
from apps.usage.parsers.base import Reading
from apps.usage.parsers.registry import AUTO, format_of
from apps.usage.sources.pieces import Clock, Cursor, Piece, Progress, listed, whole_listing
from apps.usage.sources.programs import output_of

WIDEST = timedelta(days=1)  # of one question: bounds its answer when much has to be caught up with


class Window(NamedTuple):
    from_at: datetime
    to_at: datetime


def windows(cursor: Mapping[str, Any], terms: Mapping[str, Any], at: datetime) -> Iterator[Window]:
    """From the cursor to now, a day at most each; the first time as far back as the source says."""
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


FROM, TO = "{from}", "{to}"  # the window, in the zone of the source: 2026-01-31T12:00:00
FROM_S, TO_S = "{from_s}", "{to_s}"  # those in seconds since 1970
PLACES = (FROM, TO, FROM_S, TO_S)
_HEAD = 64 * 1024


def asks_for_windows(arguments: Sequence[str]) -> bool:
    return any(place in argument for argument in arguments for place in PLACES)


def pieces_of(source: Source, at: datetime, clock: Clock) -> Iterator[Piece]:
    """Its times are in the zone of the source, else in UTC: the program is started in it.

    The cursor moves past a window with its last piece, so that an incomplete answer is requested again.
    """
    terms, zone = source.collecting, ZoneInfo(source.time_zone or "UTC")
    progress, reading = Progress(dict(source.cursor)), Reading(at, zone)
    if not asks_for_windows(terms["command"]):
        yield from _answer(terms, terms["command"], terms["format"], reading, progress)
    else:
        for window in windows(progress.cursor, terms, at):
            yield from _answer(terms, filled(terms["command"], window, zone), terms["format"], reading, progress)
            yield progress.mark(to_s=int(window.to_at.timestamp()))
    yield from listing_of(source, clock, progress.cursor)


def filled(arguments: Sequence[str], window: Window, zone: ZoneInfo) -> list[str]:
    """The arguments with the instants of the window in their places."""
    values = {}
    for (place, place_s), instant in zip(((FROM, FROM_S), (TO, TO_S)), window, strict=True):
        values[place] = f"{instant.astimezone(zone):%Y-%m-%dT%H:%M:%S}"
        values[place_s] = str(int(instant.timestamp()))
    found = []
    for argument in arguments:
        for place, value in values.items():
            argument = argument.replace(place, value)
        found.append(argument)
    return found


def listing_of(source: Source, clock: Clock, cursor: Cursor) -> Iterator[Piece]:
    """The command that lists open jobs, where a source has one beside its accounting.

    It is asked last and has the last word, so its instant is later than that of the accounting: a job that
    accounting believes to be running for ever is closed.
    """
    terms, zone = source.collecting, ZoneInfo(source.time_zone or "UTC")
    if terms.get("listing"):
        yield from _answer(terms, terms["listing"], AUTO, Reading(clock(), zone), Progress(cursor))


def _answer(
    terms: Cursor, arguments: Sequence[str], format: str, reading: Reading, progress: Progress
) -> Iterator[Piece]:
    """One question. A listing that says nothing at all is no empty one: its frame is missing."""
    place = arguments[0].rpartition("/")[2]
    zone = reading.zone.key if reading.zone else "UTC"
    most_bytes, timeout_s = int(settings.FAIRSHARE_UPLOAD_BYTES), float(terms["timeout_s"])
    with output_of(arguments, time_zone=zone, timeout_s=timeout_s, most_bytes=most_bytes) as stream:
        head = stream.read(_HEAD)
        stream.seek(0)
        if not head:
            if asks_for_windows(terms.get("command", [])) and arguments is not terms.get("listing"):
                return
            raise Invalid(f"{place} wrote nothing: a listing without jobs still has its frame.", code="empty_answer")
        collector = format_of(format, head)
        if collector.is_listing:
            parsed = whole_listing(collector, stream, reading)
            yield listed(collector, parsed, reading.at, progress.cursor, place)
        else:
            for parsed in collector.parse(stream, reading):
                yield progress.after(parsed, place, collector)
