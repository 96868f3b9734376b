"""Pieces of collected records, each with the source's cursor behind it: the common result of all kinds of sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO
from zoneinfo import ZoneInfo

from apps.core.errors import Unavailable
from apps.usage.models import Source
from apps.usage.parsers.base import (
    ENDS_READING,
    Collector,
    Parsed,
    Reading,
    RecordBatch,
    Rejection,
    concatenate_batches,
)

Cursor = dict[str, Any]
Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class Piece:
    """Records, and the cursor of the source once they are stored.

    location: the file or command of the lines. listed_at: time of a complete listing; None for other records.
    """

    parsed: Parsed
    cursor: Cursor
    location: str = ""
    format: str = ""
    listed_at: datetime | None = None


@dataclass(slots=True)
class Progress:
    """The cursor as it advances with each piece."""

    cursor: Cursor = field(default_factory=dict)

    def add(self, parsed: Parsed, location: str, collector: Collector, **changes: Any) -> Piece:
        self.cursor = {**self.cursor, **changes}
        return Piece(parsed, self.cursor, location, collector.name)

    def step(self, **changes: Any) -> Piece:
        """A piece without records that only changes the cursor: a file or window is finished, or could not be read."""
        self.cursor = {**self.cursor, **changes}
        return Piece(Parsed(RecordBatch.from_rows([]), []), self.cursor)


def zone_of_source(source: Source) -> ZoneInfo | None:
    return ZoneInfo(source.time_zone) if source.time_zone else None


def refuse_cut_output(pieces: Iterable[Parsed], place: str) -> None:
    """Read what a source sent to its end before any of it is stored: half of a window must not be stored at all, since
    the next collection begins behind the window.

    pieces: all of it. place: who sent it, for the message.

    Raises:
        Unavailable: its format says that it breaks off, or can't be read to its end.
    """
    for piece in pieces:
        for rejection in piece.rejections:
            if rejection.code in ENDS_READING:
                message = f"{place} sent half an answer, of which nothing is stored. {rejection.message}"
                raise Unavailable(f"{message} It is collected again.", code="cut_off")


def parse_listing(collector: Collector, stream: BinaryIO, reading: Reading) -> Parsed:
    """Parse a complete listing as one piece, because only a complete one shows which jobs have vanished."""
    return join_parsed(list(collector.parse(stream, reading)))


def listing_piece(
    collector: Collector, parsed: Parsed, at: datetime, cursor: Mapping[str, Any], location: str
) -> Piece:
    """A piece of a listing. With rejected lines it is incomplete, so it must not close jobs: `listed_at` is None."""
    return Piece(parsed, dict(cursor), location, collector.name, None if parsed.rejections else at)


def join_parsed(pieces: Sequence[Parsed]) -> Parsed:
    """Join the pieces of one file."""
    if len(pieces) == 1:
        return pieces[0]
    rejections: list[Rejection] = [rejection for piece in pieces for rejection in piece.rejections]
    notes: dict[str, int] = {}
    for piece in pieces:
        for name, n in piece.notes.items():
            notes[name] = notes.get(name, 0) + n
    batch = concatenate_batches([piece.batch for piece in pieces])
    return Parsed(batch, rejections, notes, n_lines=sum(piece.n_lines for piece in pieces))
