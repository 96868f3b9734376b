"""Write numpy columns as rows of COPY and as array parameters, and read arrays back as columns.

A few values go as psycopg writes them; more of them in PostgreSQL's binary formats, whole columns at a time.
Formats: PostgreSQL documentation, "COPY, File Formats" and `array_send`; every number is big-endian.

The goal of `bench ingest` needs whole columns. What goes as psycopg writes it is for the road of one record: 94 of 538
calls and two levels (tests/test_roads.py), and 0.3 of its 17 ms. No bench needs it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any, ClassVar, NamedTuple
from uuid import UUID

import numpy as np
import psycopg
from django.db import connection
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format
from psycopg.types.json import Jsonb

from apps.usage.parsers.base import I8, NO_TIME, Bytes, Flags

# Microseconds of this process, by psycopg and by whole columns: COPY of 1 record 295 and 529, of 10 511 and 583, of 100
# 1,065 and 871, of 1,000 7,551 and 1,916 (INSERT: 281, 845, 4,445, 34,669). An array of 10 numbers 122 and 130, of 10
# instants 215 and 129, of 1,000 numbers 744 and 153. The goal of `bench ingest` needs the columns.
_FEW = 8

EPOCH_US = 946_684_800_000_000  # PostgreSQL counts from 2000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_WORD = 4  # bytes of the length before each value; −1 is NULL
_TRAILER = struct.pack(">h", -1)

U1 = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True, slots=True)
class _Cells:
    """Values of one type in PostgreSQL's binary form, each in a cell of equal width behind its length word."""

    cells: U1  # (n, 4 + width)
    used: I8 | None = None  # used bytes of each cell, length word included, if they differ


class _Type(NamedTuple):
    """A type of PostgreSQL, and how a column becomes its values: as objects for psycopg, and as cells."""

    oid: int
    as_objects: Callable[[Any], list[Any]]
    as_cells: Callable[[Any], _Cells]


class Column(NamedTuple):
    """Values of one type, to be written."""

    type: _Type
    values: np.ndarray[Any, Any]

    def take(self, rows: I8) -> Column:
        return Column(self.type, self.values[rows])


def _numbers(form: str, values: np.ndarray[Any, Any], is_null: Flags | None = None) -> _Cells:
    cells = np.empty(len(values), [("length", ">i4"), ("value", form)])
    width = cells.dtype.itemsize
    cells["length"], cells["value"] = width - _WORD, values
    used = None
    if is_null is not None and is_null.any():
        cells["length"][is_null] = -1
        used = np.where(is_null, _WORD, width)
    return _Cells(cells.view(np.uint8).reshape(len(values), width), used)


def _unless(is_null: Callable[[Any], Any], oid: int, form: str) -> _Type:
    """Numbers of a type, some of which are NULL, which takes no room in a row."""

    def as_objects(values: np.ndarray[Any, Any]) -> list[Any]:
        return [None if null else each for null, each in zip(is_null(values).tolist(), values.tolist(), strict=True)]

    return _Type(oid, as_objects, lambda values: _numbers(form, values, is_null(values)))


def _refuse_large(values: I8) -> None:
    """numpy and psycopg would cut them."""
    if len(values) and not -(2**31) <= int(values.min()) <= int(values.max()) < 2**31:
        raise OverflowError("An id or number doesn't fit into 4 bytes.")


def _int4_objects(values: I8) -> list[Any]:
    _refuse_large(values)
    return list(values.tolist())


def _int4_cells(values: I8) -> _Cells:
    _refuse_large(values)
    return _numbers(">i4", values)


def _instants(us: I8) -> list[Any]:
    return [None if each == NO_TIME else _EPOCH + timedelta(microseconds=each) for each in us.tolist()]


def _instant_cells(us: I8) -> _Cells:
    is_null = us == NO_TIME
    return _numbers(">i8", np.where(is_null, 0, us - EPOCH_US), is_null)


def _texts(values: Bytes) -> list[Any]:
    return [each.decode() for each in values.tolist()]


def _text_cells(values: Bytes) -> _Cells:
    lengths = np.char.str_len(values).astype(np.int64)
    width = int(lengths.max(initial=0))
    cells = np.empty(len(values), [("length", ">i4"), ("value", f"S{width}")])
    cells["length"], cells["value"] = lengths, values
    is_full = not len(values) or int(lengths.min()) == width
    return _Cells(cells.view(np.uint8).reshape(len(values), _WORD + width), None if is_full else _WORD + lengths)


def _json_objects(values: Bytes) -> list[Any]:
    return [Jsonb(json.loads(each)) if each else None for each in values.tolist()]


def _json_cells(values: Bytes) -> _Cells:
    encoded = _text_cells(np.char.add(np.bytes_(b"\x01"), values))  # the version of the format
    used = np.full(len(values), encoded.cells.shape[1]) if encoded.used is None else encoded.used
    is_null = np.char.str_len(values) == 0
    encoded.cells[is_null, :_WORD] = 0xFF
    return _Cells(encoded.cells, np.where(is_null, _WORD, used))


_INT4 = _Type(23, _int4_objects, _int4_cells)
_INT8 = _Type(20, np.ndarray.tolist, partial(_numbers, ">i8"))
_FLOAT8 = _Type(701, np.ndarray.tolist, partial(_numbers, ">f8"))
_TEXT = _Type(25, _texts, _text_cells)
_JSONB = _Type(3802, _json_objects, _json_cells)
_TIMESTAMPTZ = _Type(1184, _instants, _instant_cells)
_UUID = _Type(
    2950,
    lambda values: [UUID(bytes=each.tobytes()) for each in values],
    lambda values: _numbers("V16", np.ascontiguousarray(values).view("V16").reshape(len(values))),
)

boolean = partial(Column, _Type(16, lambda values: values.astype(np.bool_).tolist(), partial(_numbers, "u1")))
int2 = partial(Column, _Type(21, np.ndarray.tolist, partial(_numbers, ">i2")))  # small numbers, such as states
int4 = partial(Column, _INT4)  # raises OverflowError for larger numbers
int8 = partial(Column, _INT8)
float8 = partial(Column, _FLOAT8)
int4_unless_zero = partial(Column, _unless(partial(np.equal, 0), 23, ">i4"))
int8_unless_zero = partial(Column, _unless(partial(np.equal, 0), 20, ">i8"))
float8_unless_zero = partial(Column, _unless(partial(np.equal, 0), 701, ">f8"))
float8_unless_one = partial(Column, _unless(partial(np.equal, 1), 701, ">f8"))
float8_unless_nan = partial(Column, _unless(np.isnan, 701, ">f8"))
timestamptz = partial(Column, _TIMESTAMPTZ)  # microseconds since 1970; NO_TIME is NULL
text = partial(Column, _TEXT)
json_or_null = partial(Column, _JSONB)  # the text of each; an empty one is NULL
uuid = partial(Column, _UUID)  # (n, 16), the bytes of each


def constant_int4(value: int, n: int) -> Column:
    return Column(_INT4, np.full(n, value, np.int64))


def constant_int8(value: int, n: int) -> Column:
    return Column(_INT8, np.full(n, value, np.int64))


def copy_payload(columns: Sequence[Column]) -> bytes:
    """All rows in the binary format of COPY, with header and trailer."""
    n_fields = np.frombuffer(struct.pack(">h", len(columns)), np.uint8)
    first = _Cells(np.broadcast_to(n_fields, (len(columns[0].values), 2)))
    rows = _joined([first, *(column.type.as_cells(column.values) for column in columns)])
    return b"".join([_HEADER, rows.data, _TRAILER])


def _array(kind: _Type, values: np.ndarray[Any, Any]) -> object:
    """Values as one array parameter, whose type the query names: `%s::int8[]`."""
    if len(values) <= _FEW:
        return kind.as_objects(values)
    encoded = kind.as_cells(values)
    cells, width = encoded.cells, encoded.cells.shape[1]
    has_null = bool((cells[:, 0] == 0xFF).any())  # a length below 0
    used = cells if encoded.used is None else cells[np.arange(width) < encoded.used[:, None]]
    return _EncodedArray(struct.pack(">iiIii", 1, has_null, kind.oid, len(values), 1) + used.tobytes())


int8_array = partial(_array, _INT8)
float8_array = partial(_array, _FLOAT8)
text_array = partial(_array, _TEXT)
timestamptz_array = partial(_array, _TIMESTAMPTZ)  # of microseconds since 1970


class _EncodedArray(bytes):
    """An array in PostgreSQL's binary format."""


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: _EncodedArray) -> Buffer:
        return obj


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
        return np.where(us == NO_TIME, NO_TIME, us + EPOCH_US)


_LOADERS = {1007: _Int4ArrayLoader, 1016: _NumberArrayLoader, 1022: _Float8ArrayLoader, 1185: _TimestamptzArrayLoader}


@contextmanager
def cursor() -> Iterator[psycopg.Cursor[Any]]:
    """A cursor on Django's connection and in its transaction that encodes and decodes these types."""
    connection.ensure_connection()
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as db_cursor:
        adapters = db_cursor.adapters
        adapters.register_dumper(_EncodedArray, _ArrayDumper)
        for oid, loader in _LOADERS.items():
            adapters.register_loader(oid, loader)
        yield db_cursor


def fetch_columns(query: str, parameters: Sequence[Any]) -> list[Any]:
    """Fetch the single row of a query of `array_agg`s, each as a numpy array; [] if there were no rows to aggregate."""
    with cursor() as db_cursor:
        row = db_cursor.execute(query, parameters, binary=True).fetchone()
    return [] if row is None or row[0] is None else list(row)


def copy_in(query: str, columns: Sequence[Column]) -> None:
    """Run `COPY … FROM STDIN (FORMAT BINARY)` with these columns."""
    with cursor() as db_cursor, db_cursor.copy(query) as copy:
        if len(columns[0].values) > _FEW:
            copy.write(copy_payload(columns))
            return
        copy.set_types([column.type.oid for column in columns])
        for row in zip(*[column.type.as_objects(column.values) for column in columns], strict=True):
            copy.write_row(row)


def _joined(columns: Sequence[_Cells]) -> U1:
    """The bytes of all rows, without the unused ends of cells."""
    parts = [_merged(list(group)) for _varies, group in groupby(columns, key=lambda column: column.used is not None)]
    blocks = [block for blocks in parts for block in blocks]
    if len(blocks) == 1:
        return blocks[0].cells
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
    return rows


def _merged(columns: list[_Cells]) -> list[_Cells]:
    """Neighbours of equal width in all rows as one, each put at once: byte by byte takes twice as long."""
    if columns[0].used is not None or len(columns) == 1:
        return columns
    n, widths = len(columns[0].cells), [column.cells.shape[1] for column in columns]
    rows = np.empty(n, [(f"f{place}", f"V{width}") for place, width in enumerate(widths)])
    for place, (width, column) in enumerate(zip(widths, columns, strict=True)):
        rows[f"f{place}"] = np.ascontiguousarray(column.cells).view(f"V{width}").reshape(n)
    return [_Cells(rows.view(np.uint8).reshape(n, sum(widths)))]


def _put(target: U1, place: I8, cells: U1) -> None:
    """Write each row of cells at its place, at once: byte by byte takes five times as long."""
    width = cells.shape[1]
    if len(cells):
        windows = np.ndarray((len(target) - width + 1,), f"V{width}", target, strides=(1,))
        windows[place] = np.ascontiguousarray(cells).view(f"V{width}").ravel()
