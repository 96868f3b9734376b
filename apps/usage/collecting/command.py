"""A scheduler's own commands: accounting asked for window by window, or a listing of what runs and waits now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from django.conf import settings

from apps.errors import Invalid
from apps.usage.collecting.pieces import Piece, Progress, listed, whole_listing
from apps.usage.collecting.programs import output_of
from apps.usage.collecting.windows import Window, windows
from apps.usage.collectors.base import Reading
from apps.usage.collectors.registry import format_of
from apps.usage.models import Source

FROM, TO = "{from}", "{to}"  # the window, in the zone of the source: 2026-01-31T12:00:00
FROM_S, TO_S = "{from_s}", "{to_s}"  # the same in seconds since 1970
PLACES = (FROM, TO, FROM_S, TO_S)
_HEAD = 64 * 1024


def asks_for_windows(arguments: Sequence[str]) -> bool:
    return any(place in argument for argument in arguments for place in PLACES)


def pieces_of(source: Source, at: datetime) -> Iterator[Piece]:
    """Its times are told in the zone of the source, else in UTC: the program is started in it."""
    terms, zone = source.collecting, ZoneInfo(source.time_zone or "UTC")
    progress = Progress(dict(source.cursor))
    if not asks_for_windows(terms["command"]):
        yield from _answer(terms, terms["command"], Reading(at, zone), progress, at)
        return
    for window in windows(progress.cursor, terms, at):
        yield from _answer(terms, filled(terms["command"], window, zone), Reading(at, zone), progress, window.to_at)


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


def _answer(
    terms: dict[str, object], arguments: Sequence[str], reading: Reading, progress: Progress, to_at: datetime
) -> Iterator[Piece]:
    """One question: the cursor moves behind it with its last piece, so that a half answer is asked for again."""
    place = arguments[0].rpartition("/")[2]
    zone = reading.zone.key if reading.zone else "UTC"
    with output_of(
        arguments,
        time_zone=zone,
        timeout_s=float(str(terms["timeout_s"])),
        most_bytes=int(settings.FAIRSHARE_UPLOAD_BYTES),
    ) as stream:
        head = stream.read(_HEAD)
        stream.seek(0)
        if head:
            collector = format_of(str(terms["format"]), head)
            if collector.is_listing:
                parsed = whole_listing(collector, stream, reading)
                yield listed(collector, parsed, reading.at, progress.cursor, place)
            else:
                for parsed in collector.parse(stream, reading):
                    yield progress.after(parsed, place, collector)
        elif not asks_for_windows(terms["command"]):  # type: ignore[arg-type]
            raise Invalid(f"{place} wrote nothing: a listing without jobs still has its frame.", code="empty_answer")
    yield progress.mark(to_s=int(to_at.timestamp()))
