"""What every kind of source gives: pieces of records, each with the place in the source behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO
from zoneinfo import ZoneInfo

from apps.usage.models import Source
from apps.usage.parsers.base import Collector, Parsed, Reading, RecordBatch, Rejection
from apps.usage.parsers.base import joined as joined_batches

Cursor = dict[str, Any]
Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class Piece:
    """Records, and the cursor of the source once they are stored.

    place: the file or command that has their lines. listed_at: when a whole listing was true, if it is one.
    """

    parsed: Parsed
    cursor: Cursor
    place: str = ""
    format: str = ""
    listed_at: datetime | None = None


@dataclass(slots=True)
class Progress:
    """The cursor as it grows while pieces are given."""

    cursor: Cursor = field(default_factory=dict)

    def after(self, parsed: Parsed, place: str, collector: Collector, **changes: Any) -> Piece:
        self.cursor = {**self.cursor, **changes}
        return Piece(parsed, self.cursor, place, collector.name)

    def mark(self, **changes: Any) -> Piece:
        """A step without records: something was read to its end, or could not be read."""
        self.cursor = {**self.cursor, **changes}
        return Piece(nothing(), self.cursor)


def nothing() -> Parsed:
    return Parsed(RecordBatch.from_rows([]), [])


def zone_of_source(source: Source) -> ZoneInfo | None:
    return ZoneInfo(source.time_zone) if source.time_zone else None


def whole_listing(collector: Collector, stream: BinaryIO, reading: Reading) -> Parsed:
    """All of a listing at once: only a whole one says who has vanished."""
    return joined(list(collector.parse(stream, reading)))


def listed(collector: Collector, parsed: Parsed, at: datetime, cursor: Mapping[str, Any], place: str) -> Piece:
    """A listing with lines that could not be read misses jobs, so it closes none: it counts as mere records."""
    return Piece(parsed, dict(cursor), place, collector.name, None if parsed.rejections else at)


def joined(pieces: Sequence[Parsed]) -> Parsed:
    """Pieces of one file as one."""
    if len(pieces) == 1:
        return pieces[0]
    rejections: list[Rejection] = [one for piece in pieces for one in piece.rejections]
    notes: dict[str, int] = {}
    for piece in pieces:
        for name, n in piece.notes.items():
            notes[name] = notes.get(name, 0) + n
    batch = joined_batches([piece.batch for piece in pieces])
    return Parsed(batch, rejections, notes, n_lines=sum(piece.n_lines for piece in pieces))
