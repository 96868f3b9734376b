"""Write tables as CSV, without cells that spreadsheets read as formulas, and as Parquet; in pieces, to bound memory."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from math import isfinite
from string import ascii_letters, digits
from typing import Any, Literal

from apps.core.errors import Invalid
from apps.core.invisible import visible

Kind = Literal["text", "whole", "number", "flag", "instant"]
Row = Sequence[Any]
FORMATS = ("csv", "parquet")
MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
_TRIGGERS = ("=", "+", "-", "@", "\t", "\r")
NO_TRIGGERS = frozenset("/" + ascii_letters + digits)  # a cell that begins so is no formula
_SPACES = " \u00a0\u3000\n"
_CSV_ROWS = 1_000
_PARQUET_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table; its cells may be None: unknown, or hidden."""

    name: str
    kind: Kind = "text"


def pieces(columns: Sequence[Column], rows: Iterable[Row], format: str) -> Iterator[bytes]:
    """Yield the table as bytes, in pieces.

    Raises:
        Invalid: `no_parquet`, this installation can't write it.
    """
    if format == "parquet":
        return _parquet(_arrow(), columns, rows)
    return _csv(columns, rows)


def escape_formula(text: str) -> str:
    """Prefix an apostrophe to a cell that starts like a formula.

    Also after spaces and invisible characters, and with full-width signs.
    """
    if text[:1] in NO_TRIGGERS:
        return text
    shown = visible(text)
    start = unicodedata.normalize("NFKC", shown.lstrip(_SPACES))
    return f"'{text}" if start.startswith(_TRIGGERS) or shown.startswith(_TRIGGERS) else text


def _csv(columns: Sequence[Column], rows: Iterable[Row]) -> Iterator[bytes]:
    """CSV: text in quotes, numbers without, empty for None."""
    waiting = iter(rows)
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow([column.name for column in columns])
    while True:
        some = list(islice(waiting, _CSV_ROWS))
        writer.writerows([_cell(value) for value in row] for row in some)
        yield text.getvalue().encode()
        if len(some) < _CSV_ROWS:
            return
        text.seek(0)
        text.truncate()


def _cell(value: Any) -> Any:
    if type(value) is float and isfinite(value):
        return value
    if isinstance(value, str):
        return escape_formula(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not isfinite(value):
        return "" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return "" if value is None else value


def _arrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        message = "This site can't write Parquet: ask for csv, or its administrator for the extra [parquet] (pyarrow)."
        raise Invalid(message, code="no_parquet") from None
    return pyarrow


def _parquet(arrow: Any, columns: Sequence[Column], rows: Iterable[Row]) -> Iterator[bytes]:
    """Parquet: one row group after the other; infinities are kept, None is null."""
    kinds = {
        "text": arrow.string(),
        "whole": arrow.int64(),
        "number": arrow.float64(),
        "flag": arrow.bool_(),
        "instant": arrow.timestamp("us", tz="UTC"),
    }
    schema = arrow.schema([(column.name, kinds[column.kind]) for column in columns])
    buffer = _PieceBuffer()
    waiting = iter(rows)
    with arrow.parquet.ParquetWriter(arrow.PythonFile(buffer, mode="w"), schema, compression="zstd") as writer:
        while some := list(islice(waiting, _PARQUET_ROWS)):
            by_column = zip(*some, strict=True)
            arrays = [arrow.array(cells, type=field.type) for cells, field in zip(by_column, schema, strict=True)]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
            yield buffer.take_piece()
    yield buffer.take_piece()


class _PieceBuffer(io.RawIOBase):
    """Output of the Parquet writer: the bytes are collected until the next piece is yielded."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._bytes += data
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        return self._written

    def take_piece(self) -> bytes:
        piece, self._bytes = bytes(self._bytes), bytearray()
        return piece
