"""Read files line by line in bounded memory, and parse them with a format's line reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import numpy as np

from apps.usage.parsers.base import Parsed, RecordBatch, RecordRow, Rejection, excerpt
from apps.usage.parsers.field_values import BadRecord

MOST_LINE_BYTES = 4 * 1024**2  # a line may name each of 10,000 hosts, or have a job's whole description
_READ = 256 * 1024
_BLOCK = 4 * 1024**2
_LINE_END = ord("\n")
Notes = Counter[str]
Rows = list[tuple[int, RecordRow]]  # with the number of the first line of each


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a file, with their line ends."""

    first_line: int
    n_lines: int
    data: bytes
    end_offset: int  # position behind this block in the unpacked file


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line over the limit, with its first bytes."""

    line: int
    head: bytes
    end_offset: int


def read_blocks(
    stream: BinaryIO, *, first_line: int, offset: int, most_bytes: int = MOST_LINE_BYTES
) -> Iterator[Block | LongLine]:
    """Cut a stream into blocks of whole lines. A line over `most_bytes` is skipped without being buffered.

    `stream` is at `offset`; `first_line` is the number of the line that begins there.
    """
    line, held = first_line, b""
    while True:
        data = held + stream.read(max(_BLOCK - len(held), _READ))
        at_end = len(data) == len(held)
        cut = len(data) if at_end else data.rfind(b"\n") + 1
        if cut:
            offset += cut
            # In a tenth of the time of bytes.count, which stops at each of them.
            n_ends = int(np.count_nonzero(np.frombuffer(data, np.uint8, cut) == _LINE_END))
            n_lines = n_ends + (not data.endswith(b"\n") if at_end else 0)
            yield Block(line, n_lines, data[:cut], offset)
            line, held = line + n_lines, data[cut:]
        else:
            held = data
        if at_end:
            return
        if len(held) > most_bytes:
            head, rest, n_skipped = _skip_line(stream, held)
            offset += n_skipped
            yield LongLine(line, head, offset)
            line, held = line + 1, rest


def _skip_line(stream: BinaryIO, held: bytes) -> tuple[bytes, bytes, int]:
    """Read to the end of a line: returns its first bytes, the bytes behind it, and its length including the line
    end.
    """
    head, n_skipped = held[:1024], len(held)
    while data := stream.read(_READ):
        end = data.find(b"\n") + 1
        if end:
            return head, data[end:], n_skipped + end
        n_skipped += len(data)
    return head, b"", n_skipped


class LineReader(Protocol):
    """State of one format while reading lines. `remember` returns bounded JSON, from which `recall` restores the state.

    skip: called for a line that is too long and was already rejected.
    """

    def take(self, text: str, line: int, notes: Notes) -> Rows: ...

    def skip(self, line: int) -> None: ...

    def finish(self, notes: Notes) -> Rows: ...

    def remember(self) -> dict[str, Any]: ...

    def recall(self, remembered: Mapping[str, Any]) -> None: ...


class SingleLines:
    """Defaults for formats in which each line is a complete record."""

    def skip(self, line: int) -> None:
        return

    def finish(self, notes: Notes) -> Rows:
        return []

    def remember(self) -> dict[str, Any]:
        return {}

    def recall(self, remembered: Mapping[str, Any]) -> None:
        return


def parse_lines(
    stream: BinaryIO,
    reader: LineReader,
    resume: Mapping[str, Any] | None,
    *,
    most_bytes: int = MOST_LINE_BYTES,
    are_blanks_read: bool = False,
) -> Iterator[Parsed]:
    """Parse block by block. In a line that isn't UTF-8, only the used fields must be.

    most_bytes: of a line; a longer one is refused. are_blanks_read: the reader gets blank lines, too, as "".
    """
    state = resume or {"line": 1, "offset": 0}
    reader.recall(state.get("reader", {}))
    stream.seek(state["offset"])
    line, offset = state["line"], state["offset"]
    for piece in read_blocks(stream, first_line=line, offset=offset, most_bytes=most_bytes):
        if isinstance(piece, LongLine):
            line, offset = piece.line + 1, piece.end_offset
            reader.skip(piece.line)
            rejection = _too_long(piece.line, piece.head, most_bytes)
            yield _parsed([], [rejection], Counter(), 1, line, offset, reader)
        else:
            line, offset = piece.first_line + piece.n_lines, piece.end_offset
            yield _block(piece, reader, most_bytes, are_blanks_read)
    notes: Notes = Counter()
    rows, rejections = _read_line(reader, None, line, notes)
    if rows or rejections or notes:
        yield _parsed(rows, rejections, notes, 0, line, offset, reader)


def _block(piece: Block, reader: LineReader, most_bytes: int, are_blanks_read: bool) -> Parsed:
    rows: Rows = []
    rejections: list[Rejection] = []
    notes: Notes = Counter()
    data = piece.data.removeprefix(b"\xef\xbb\xbf") if piece.first_line == 1 else piece.data
    for line, raw in enumerate(data.split(b"\n"), start=piece.first_line):
        raw = raw.rstrip(b"\r")
        if not raw or raw.isspace():
            if not are_blanks_read or line == piece.first_line + piece.n_lines:  # what follows the last line end
                continue
            raw = b""
        if len(raw) > most_bytes:
            reader.skip(line)
            rejections.append(_too_long(line, raw, most_bytes))
            continue
        new_rows, bad = _read_line(reader, raw.decode("utf-8", "surrogateescape"), line, notes)
        rows += new_rows
        rejections += bad
    return _parsed(rows, rejections, notes, piece.n_lines, piece.first_line + piece.n_lines, piece.end_offset, reader)


def _too_long(line: int, raw: bytes, most_bytes: int) -> Rejection:
    message = f"The line is longer than {most_bytes // 1024**2} MB: is a line end missing?"
    return Rejection(line, "line_too_long", message, excerpt(raw))


def _read_line(reader: LineReader, text: str | None, line: int, notes: Notes) -> tuple[Rows, list[Rejection]]:
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
