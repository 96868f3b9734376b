"""Convert numpy columns to and from PostgreSQL's binary formats: rows of COPY, array parameters and array results.

Formats: PostgreSQL documentation, "COPY, File Formats" and `array_send`; every number is big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
import psycopg
from django.db import connection
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format

from apps.usage.parsers.base import F8, I8, NO_TIME, Bytes, Flags

_EPOCH_US = 946_684_800_000_000  # PostgreSQL counts from 2000
_HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_WORD = 4  # bytes of the length before each value; −1 is NULL
_TRAILER = struct.pack(">h", -1)

_INT4, _INT8, _FLOAT8, _TEXT, _TIMESTAMPTZ = 23, 20, 701, 25, 1184
_ARRAY_OF = {_INT4: 1007, _INT8: 1016, _FLOAT8: 1022, _TEXT: 1009, _TIMESTAMPTZ: 1185}

U1 = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True, slots=True)
class Column:
    """Values of one type in PostgreSQL's binary form, each in a cell of equal width behind its length word."""

    oid: int
    cells: U1  # (n, 4 + width)
    used: I8 | None = None  # used bytes of each cell, length word included, if they differ

    def take(self, rows: I8) -> Column:
        return Column(self.oid, self.cells[rows], None if self.used is None else self.used[rows])


def boolean(values: Flags) -> Column:
    return _numbers(16, values, "u1")


def int2(values: I8) -> Column:
    """values: small numbers, such as states."""
    return _numbers(21, values, ">i2")


def int4(values: I8) -> Column:
    """Raises OverflowError for larger numbers, which numpy would cut."""
    if len(values) and not -(2**31) <= int(values.min()) <= int(values.max()) < 2**31:
        raise OverflowError("An id or number doesn't fit into 4 bytes.")
    return _numbers(_INT4, values, ">i4")


def constant_int4(value: int | None, n: int) -> Column:
    if value is None:
        return Column(_INT4, np.full((n, _WORD), 0xFF, np.uint8))  # a length of −1 is NULL
    return int4(np.full(n, value, np.int64))


def int8(values: I8) -> Column:
    return _numbers(_INT8, values, ">i8")


def constant_int8(value: int, n: int) -> Column:
    return _numbers(_INT8, np.full(n, value), ">i8")


def float8(values: F8, *, nan_is_null: bool = False) -> Column:
    return _numbers(_FLOAT8, values, ">f8", np.isnan(values) if nan_is_null else None)


def timestamptz(us: I8) -> Column:
    """Microseconds since 1970; NO_TIME is NULL."""
    is_null = us == NO_TIME
    return _numbers(_TIMESTAMPTZ, np.where(is_null, 0, us - _EPOCH_US), ">i8", is_null)


def uuid(values: U1) -> Column:
    """values: (n, 16), the bytes of each."""
    return _numbers(2950, np.ascontiguousarray(values).view("V16").reshape(len(values)), "V16")


def text(values: Bytes) -> Column:
    lengths = np.char.str_len(values).astype(np.int64)
    width = int(lengths.max(initial=0))
    cells = np.empty(len(values), [("length", ">i4"), ("value", f"S{width}")])
    cells["length"], cells["value"] = lengths, values
    is_full = not len(values) or int(lengths.min()) == width
    return Column(_TEXT, cells.view(np.uint8).reshape(len(values), _WORD + width), None if is_full else _WORD + lengths)


def _numbers(oid: int, values: np.ndarray[Any, Any], form: str, is_null: Flags | None = None) -> Column:
    cells = np.empty(len(values), [("length", ">i4"), ("value", form)])
    width = cells.dtype.itemsize
    cells["length"], cells["value"] = width - _WORD, values
    used = None
    if is_null is not None and is_null.any():
        cells["length"][is_null] = -1
        used = np.where(is_null, _WORD, width)
    return Column(oid, cells.view(np.uint8).reshape(len(values), width), used)


def copy_payload(columns: Sequence[Column]) -> bytes:
    """All rows in the binary format of COPY, with header and trailer."""
    n_fields = np.frombuffer(struct.pack(">h", len(columns)), np.uint8)
    first = Column(0, np.broadcast_to(n_fields, (len(columns[0].cells), 2)))
    return _HEADER + _joined([first, *columns]) + _TRAILER


class Array:
    """Values encoded as one array parameter. encode: makes the column of them."""

    encode: ClassVar[Any]

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        column: Column = self.encode(values)
        n, width = column.cells.shape
        is_null = column.cells[:, 0] == 0xFF  # a length below 0
        used = column.cells if column.used is None else column.cells[np.arange(width) < column.used[:, None]]
        head = struct.pack(">iiIii", 1, bool(is_null.any()), column.oid, n, 1)
        self.data = head + used.tobytes() if n else struct.pack(">iiI", 0, 0, column.oid)


class Int8Array(Array):
    encode = staticmethod(int8)


class Float8Array(Array):
    encode = staticmethod(float8)


class TextArray(Array):
    encode = staticmethod(text)


class TimestamptzArray(Array):
    """Of microseconds since 1970."""

    encode = staticmethod(timestamptz)


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Array) -> Buffer:
        return obj.data


class _Int8Dumper(_ArrayDumper):
    oid = _ARRAY_OF[_INT8]


class _Float8Dumper(_ArrayDumper):
    oid = _ARRAY_OF[_FLOAT8]


class _TextDumper(_ArrayDumper):
    oid = _ARRAY_OF[_TEXT]


class _TimestamptzDumper(_ArrayDumper):
    oid = _ARRAY_OF[_TIMESTAMPTZ]


class _NumberArrayLoader(Loader):
    """Decodes an array of numbers without NULLs to a numpy array of 8 bytes each."""

    format = Format.BINARY
    of = ">i8"
    to: ClassVar[str] = "i8"

    def load(self, data: Buffer) -> Any:
        dimensions, has_null = struct.unpack_from(">ii", data)
        if has_null:
            raise ValueError("An array with NULLs has no numpy column.")
        if not dimensions:
            return np.zeros(0, self.to)
        elements = np.frombuffer(data, np.dtype([("length", ">i4"), ("value", self.of)]), offset=20)
        return elements["value"].astype(self.to)


class _Int4ArrayLoader(_NumberArrayLoader):
    of = ">i4"


class _Float8ArrayLoader(_NumberArrayLoader):
    of = ">f8"
    to = "f8"


class _TimestamptzArrayLoader(_NumberArrayLoader):
    """Decodes to microseconds since 1970; -infinity is NO_TIME."""

    def load(self, data: Buffer) -> Any:
        us = super().load(data)
        return np.where(us == NO_TIME, NO_TIME, us + _EPOCH_US)


@contextmanager
def cursor() -> Iterator[psycopg.Cursor[Any]]:
    """A cursor on Django's connection and in its transaction that encodes and decodes these types."""
    connection.ensure_connection()
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as db_cursor:
        adapters = db_cursor.adapters
        adapters.register_dumper(Int8Array, _Int8Dumper)
        adapters.register_dumper(Float8Array, _Float8Dumper)
        adapters.register_dumper(TextArray, _TextDumper)
        adapters.register_dumper(TimestamptzArray, _TimestamptzDumper)
        adapters.register_loader(_ARRAY_OF[_INT4], _Int4ArrayLoader)
        adapters.register_loader(_ARRAY_OF[_INT8], _NumberArrayLoader)
        adapters.register_loader(_ARRAY_OF[_FLOAT8], _Float8ArrayLoader)
        adapters.register_loader(_ARRAY_OF[_TIMESTAMPTZ], _TimestamptzArrayLoader)
        yield db_cursor


def fetch_columns(query: str, parameters: Sequence[Any]) -> list[Any]:
    """Fetch the single row of a query of `array_agg`s, each as a numpy array; [] if there were no rows to aggregate."""
    with cursor() as db_cursor:
        row = db_cursor.execute(query, parameters, binary=True).fetchone()
    return [] if row is None or row[0] is None else list(row)


def copy_in(query: str, columns: Sequence[Column]) -> None:
    """Run `COPY … FROM STDIN (FORMAT BINARY)` with these columns."""
    with cursor() as db_cursor, db_cursor.copy(query) as copy:
        copy.write(copy_payload(columns))


def _joined(columns: Sequence[Column]) -> bytes:
    """The bytes of all rows, without the unused ends of cells."""
    parts = [_merged(list(group)) for _varies, group in groupby(columns, key=lambda column: column.used is not None)]
    blocks = [block for blocks in parts for block in blocks]
    if len(blocks) == 1:
        return blocks[0].cells.tobytes()
    n_bytes = sum([block.cells.shape[1] if block.used is None else block.used for block in blocks])
    ends = np.cumsum(n_bytes)
    place = ends - n_bytes
    rows = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    for block in blocks:
        if block.used is None:
            _put(rows, place, block.cells)
            place = place + block.cells.shape[1]
        else:
            for n_used in np.unique(block.used).tolist():
                chosen = np.flatnonzero(block.used == n_used)
                _put(rows, place[chosen], block.cells[chosen, :n_used])
            place = place + block.used
    return rows.tobytes()


def _merged(columns: list[Column]) -> list[Column]:
    """Neighbours of equal width in all rows as one."""
    if columns[0].used is not None or len(columns) == 1:
        return columns
    return [Column(0, np.concatenate([column.cells for column in columns], axis=1))]


def _put(target: U1, place: I8, cells: U1) -> None:
    """Write each row of cells at its place, at once: byte by byte takes five times as long."""
    width = cells.shape[1]
    if len(cells):
        windows = np.ndarray((len(target) - width + 1,), f"V{width}", target, strides=(1,))
        windows[place] = np.ascontiguousarray(cells).view(f"V{width}").ravel()
