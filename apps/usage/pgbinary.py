"""Convert numpy columns to and from PostgreSQL's binary formats: rows of COPY, array parameters and array results.

Formats: PostgreSQL documentation, "COPY, File Formats" and `array_send`; every number is big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
from django.db import connection
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format

from apps.usage.parsers.base import F8, I8, NO_TIME, Bytes, Flags

_EPOCH_US = 946_684_800_000_000  # PostgreSQL counts from 2000
_HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_TRAILER = struct.pack(">h", -1)

_INT8, _FLOAT8, _TEXT, _TIMESTAMPTZ = 20, 701, 25, 1184
_ARRAY_OF = {_INT8: 1016, _FLOAT8: 1022, _TEXT: 1009, _TIMESTAMPTZ: 1185}

U1 = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True, slots=True)
class Column:
    """Values of one type in PostgreSQL's binary form, in cells of equal width."""

    oid: int
    cells: U1  # (n, width)
    lengths: I8 | None = None  # used bytes of each cell, if they differ; -1 is NULL


def boolean(values: Flags) -> Column:
    return Column(16, _cells(values.astype(np.uint8)))


def int4(values: I8) -> Column:
    return Column(23, _cells(values.astype(">i4")))


def int8(values: I8) -> Column:
    return Column(_INT8, _cells(values.astype(">i8")))


def constant_int8(value: int | None, n: int) -> Column:
    if value is None:
        return Column(_INT8, np.zeros((n, 0), np.uint8), np.full(n, -1, np.int64))
    return int8(np.full(n, value, np.int64))


def float8(values: F8, *, nan_is_null: bool = False) -> Column:
    cells = _cells(values.astype(">f8"))
    is_null = np.isnan(values) if nan_is_null else None
    return Column(_FLOAT8, cells, _null_lengths(is_null))


def timestamptz(us: I8) -> Column:
    """Microseconds since 1970; NO_TIME is NULL."""
    is_null = us == NO_TIME
    cells = _cells(np.where(is_null, 0, us - _EPOCH_US).astype(">i8"))
    return Column(_TIMESTAMPTZ, cells, _null_lengths(is_null))


def text(values: Bytes) -> Column:
    lengths = np.char.str_len(values).astype(np.int64)
    width = int(lengths.max(initial=0))
    if not width:
        return Column(_TEXT, np.zeros((len(values), 0), np.uint8))
    cells = np.ascontiguousarray(values.astype(f"S{width}")).view(np.uint8).reshape(len(values), width)
    return Column(_TEXT, cells, None if lengths.min() == width else lengths)


def copy_payload(columns: Sequence[Column]) -> bytes:
    """All rows in the binary format of COPY, with header and trailer."""
    n = len(columns[0].cells)
    n_fields = np.broadcast_to(np.frombuffer(struct.pack(">h", len(columns)), np.uint8), (n, 2))
    return _HEADER + _joined([(n_fields, None), *_fields(columns)], n) + _TRAILER


class Array:
    """A column encoded as one array parameter."""

    def __init__(self, column: Column) -> None:
        n = len(column.cells)
        has_null = column.lengths is not None and bool((column.lengths < 0).any())
        head = struct.pack(">iiIii", 1, has_null, column.oid, n, 1)
        self.oid = _ARRAY_OF[column.oid]
        self.data = head + _joined(_fields([column]), n) if n else struct.pack(">iiI", 0, 0, column.oid)


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


class Int8Array(Array):
    def __init__(self, values: I8) -> None:
        super().__init__(int8(values))


class Float8Array(Array):
    def __init__(self, values: F8) -> None:
        super().__init__(float8(values))


class TextArray(Array):
    def __init__(self, values: Bytes) -> None:
        super().__init__(text(values))


class TimestamptzArray(Array):
    def __init__(self, us: I8) -> None:
        super().__init__(timestamptz(us))


class _NumberArrayLoader(Loader):
    """Decodes an array of numbers without NULLs to a numpy array."""

    format = Format.BINARY
    of = ">i8"

    def load(self, data: Buffer) -> Any:
        dimensions, has_null = struct.unpack_from(">ii", data)
        if has_null:
            raise ValueError("An array with NULLs has no numpy column.")
        if not dimensions:
            return np.zeros(0, self.of[1:])
        elements = np.frombuffer(data, np.dtype([("length", ">i4"), ("value", self.of)]), offset=20)
        return elements["value"].astype(self.of[1:])


class _Float8ArrayLoader(_NumberArrayLoader):
    of = ">f8"


class _TimestamptzArrayLoader(_NumberArrayLoader):
    """Decodes to microseconds since 1970; -infinity is NO_TIME."""

    def load(self, data: Buffer) -> Any:
        us = super().load(data)
        return np.where(us == NO_TIME, NO_TIME, us + _EPOCH_US)


@contextmanager
def cursor() -> Iterator[psycopg.Cursor[Any]]:
    """A cursor on Django's connection and in its transaction that encodes and decodes these types."""
    connection.ensure_connection()
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as found:
        adapters = found.adapters
        adapters.register_dumper(Int8Array, _Int8Dumper)
        adapters.register_dumper(Float8Array, _Float8Dumper)
        adapters.register_dumper(TextArray, _TextDumper)
        adapters.register_dumper(TimestamptzArray, _TimestamptzDumper)
        adapters.register_loader(_ARRAY_OF[_INT8], _NumberArrayLoader)
        adapters.register_loader(_ARRAY_OF[_FLOAT8], _Float8ArrayLoader)
        adapters.register_loader(_ARRAY_OF[_TIMESTAMPTZ], _TimestamptzArrayLoader)
        yield found


def fetch_columns(query: str, parameters: Sequence[Any]) -> list[Any]:
    """Fetch the single row of a query of `array_agg`s, each as a numpy array; [] if there were no rows to aggregate."""
    with cursor() as found:
        row = found.execute(query, parameters, binary=True).fetchone()
    return [] if row is None or row[0] is None else list(row)


def copy_in(query: str, columns: Sequence[Column]) -> None:
    """Run `COPY … FROM STDIN (FORMAT BINARY)` with these columns."""
    with cursor() as found, found.copy(query) as copy:
        copy.write(copy_payload(columns))


def _cells(values: np.ndarray[Any, Any]) -> U1:
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), values.dtype.itemsize)


def _null_lengths(is_null: Flags | None) -> I8 | None:
    if is_null is None or not is_null.any():
        return None
    return np.where(is_null, -1, 8).astype(np.int64)


def _fields(columns: Sequence[Column]) -> list[tuple[U1, I8 | None]]:
    """Each column as its length words and its cells."""
    fields: list[tuple[U1, I8 | None]] = []
    for column in columns:
        n, width = column.cells.shape
        lengths = np.full(n, width, np.int64) if column.lengths is None else column.lengths
        fields.append((_cells(lengths.astype(">i4")), None))
        fields.append((column.cells, column.lengths))
    return fields


def _joined(fields: Sequence[tuple[U1, I8 | None]], n: int) -> bytes:
    """The bytes of all rows, without the unused ends of cells."""
    width = sum(cells.shape[1] for cells, _ in fields)
    matrix = np.empty((n, width), np.uint8)
    is_used: Flags | None = None
    index = 0
    for cells, lengths in fields:
        end = index + cells.shape[1]
        matrix[:, index:end] = cells
        if lengths is not None and end > index:
            if is_used is None:
                is_used = np.ones((n, width), np.bool_)
            is_used[:, index:end] = np.arange(end - index) < lengths[:, None]
        index = end
    return matrix.tobytes() if is_used is None else matrix[is_used].tobytes()
