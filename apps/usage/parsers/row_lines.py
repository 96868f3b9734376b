"""Formats with one record a line, or a few lines: the loop around what each makes of its lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Protocol

from apps.usage.parsers.base import Parsed, RecordBatch, RecordRow, Rejection, excerpt
from apps.usage.parsers.field_checks import BadRecord
from apps.usage.parsers.lines import MOST_LINE_BYTES, Block, LongLine, read_blocks

Notes = Counter[str]
Rows = list[tuple[int, RecordRow]]  # with the line each began in
TOO_LONG = f"The line is longer than {MOST_LINE_BYTES // 1024} KB."


class LineReader(Protocol):
    """One format's view of its lines. `remember` returns bounded JSON, from which `recall` restores the state.

    skip: a line too long to be read, already rejected.
    """

    def take(self, text: str, line: int, notes: Notes) -> Rows: ...

    def skip(self, line: int) -> None: ...

    def finish(self, notes: Notes) -> Rows: ...

    def remember(self) -> dict[str, Any]: ...

    def recall(self, remembered: Mapping[str, Any]) -> None: ...


class SingleLines:
    """The defaults for formats in which each line is complete."""

    def skip(self, line: int) -> None:
        return

    def finish(self, notes: Notes) -> Rows:
        return []

    def remember(self) -> dict[str, Any]:
        return {}

    def recall(self, remembered: Mapping[str, Any]) -> None:
        return


def parse_lines(stream: BinaryIO, reader: LineReader, resume: Mapping[str, Any] | None) -> Iterator[Parsed]:
    """Block by block. A line that isn't UTF-8 is judged by the fields that are used of it."""
    place = resume or {"line": 1, "offset": 0}
    reader.recall(place.get("reader", {}))
    stream.seek(place["offset"])
    line, offset = place["line"], place["offset"]
    for piece in read_blocks(stream, first_line=line, offset=offset):
        if isinstance(piece, LongLine):
            line, offset = piece.line + 1, piece.end_offset
            reader.skip(piece.line)
            rejection = Rejection(piece.line, "line_too_long", TOO_LONG, excerpt(piece.head))
            yield _parsed([], [rejection], Counter(), 1, line, offset, reader)
        else:
            line, offset = piece.first_line + piece.n_lines, piece.end_offset
            yield _block(piece, reader)
    notes: Notes = Counter()
    rows, rejections = _guarded(reader, None, line, notes)
    if rows or rejections or notes:
        yield _parsed(rows, rejections, notes, 0, line, offset, reader)


def _block(piece: Block, reader: LineReader) -> Parsed:
    rows: Rows = []
    rejections: list[Rejection] = []
    notes: Notes = Counter()
    data = piece.data.removeprefix(b"\xef\xbb\xbf") if piece.first_line == 1 else piece.data
    for line, raw in enumerate(data.split(b"\n"), start=piece.first_line):
        raw = raw.rstrip(b"\r")
        if not raw or raw.isspace():
            continue
        if len(raw) > MOST_LINE_BYTES:
            reader.skip(line)
            rejections.append(Rejection(line, "line_too_long", TOO_LONG, excerpt(raw)))
            continue
        found, bad = _guarded(reader, raw.decode("utf-8", "surrogateescape"), line, notes)
        rows += found
        rejections += bad
    return _parsed(rows, rejections, notes, piece.n_lines, piece.first_line + piece.n_lines, piece.end_offset, reader)


def _guarded(reader: LineReader, text: str | None, line: int, notes: Notes) -> tuple[Rows, list[Rejection]]:
    try:
        return (reader.finish(notes) if text is None else reader.take(text, line, notes)), []
    except BadRecord as bad:
        return [], [Rejection(bad.line or line, bad.code, bad.message, excerpt(text or ""))]


def _parsed(
    rows: Rows, rejections: list[Rejection], notes: Notes, n_lines: int, line: int, offset: int, reader: LineReader
) -> Parsed:
    batch = RecordBatch.from_rows([row for _, row in rows], [number for number, _ in rows])
    resume = {"line": line, "offset": offset, "reader": reader.remember()}
    return Parsed(batch, rejections, dict(notes), resume, n_lines, offset)
