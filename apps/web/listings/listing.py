"""Lists whose columns are declared once: a page's table, its CSV file, REST and a command take them from there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from operator import attrgetter
from typing import Any

from rest_framework import serializers

from apps.core import tables
from apps.web.rest.records import AnyField, AnySerializer, field_of, serializer_class

# answer: JSON of REST. file: the table that REST sends in its place. csv: the file of a page, and what a command
# prints. table: of the list's page. card: of another page.
FACES = ("answer", "file", "csv", "table", "card")
_TITLED = ("table", "card")
_FILE_KINDS: tuple[tuple[type[AnyField], tables.Kind], ...] = (
    (serializers.BooleanField, "flag"),
    (serializers.IntegerField, "whole"),
    (serializers.FloatField, "number"),
    (serializers.DateTimeField, "instant"),
)


@dataclass(frozen=True)
class Column:
    """One quantity of the rows of a list.

    name: in REST and in files; in a table the name of its cell.
    kind: type of its values, as a record would declare it; or the field of REST, where a type doesn't say enough.
    value: path of attributes in the row, by default the name; or a function of the row, for faces other than REST.
    text: description in OpenAPI.
    on: names of the faces that have it.
    title: heading in tables. write: a value, other than None, as text of a table. show: a row as that text, where the
        value alone doesn't say it. sort: name of the order by it.
    beside: the table's column that it belongs to, where a file follows the table and this is none of its columns.
    """

    name: str
    kind: Any
    value: str | Callable[[Any], Any] = ""
    text: str = ""
    on: str = "answer"
    title: Any = ""
    write: Callable[[Any], Any] = str
    show: Callable[[Any], Any] | None = None
    sort: str = ""
    beside: str = ""

    @cached_property
    def faces(self) -> frozenset[str]:
        return frozenset(self.on.split())

    @cached_property
    def read(self) -> Callable[[Any], Any]:
        """The value of a row."""
        return self.value if callable(self.value) else attrgetter(self.value or self.name)

    @cached_property
    def field(self) -> AnyField:
        """The field of REST."""
        if isinstance(self.kind, serializers.Field):
            return self.kind
        more = {"help_text": self.text} if self.text else {}
        path = str(self.value)
        return field_of(self.kind, **more, **({"source": path} if path not in ("", self.name) else {}))

    @cached_property
    def is_number(self) -> bool:
        return isinstance(self.field, serializers.IntegerField | serializers.FloatField)

    @property
    def file_kind(self) -> tables.Kind:
        return next((kind for base, kind in _FILE_KINDS if isinstance(self.field, base)), "text")

    def text_of(self, row: Any) -> Any:
        """The value as text of a table; empty for None."""
        if self.show is not None:
            return self.show(row)
        value = self.read(row)
        return "" if value is None else self.write(value)


@dataclass(frozen=True)
class Listing:
    """The columns of a list. cells: template with a `{% cell %}` for each column whose cell is marked up.

    orders: names of columns in the order of a face, where it isn't that of the declaration; others follow.

    Raises:
        ValueError: two columns have one name, so that it means two quantities, or one value, which then has two names;
            a column has an unknown face, no title in a table, or a function as value in REST; an order names a column
            that its face lacks.
    """

    columns: Sequence[Column]
    cells: str = ""
    orders: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what, every in (("name", self._names()), ("value", self._paths())):
            if doubled := sorted({each for each in every if every.count(each) > 1}):
                raise ValueError(f"two columns have the {what} {', '.join(doubled)}")
        for face in FACES:
            names = [column.name for column in self.columns if face in column.faces]
            if missing := set(self.orders.get(face, "").split()) - set(names):
                raise ValueError(f"{face} has no column {', '.join(sorted(missing))}")
        for column in self.columns:
            if unknown := column.faces - set(FACES):
                raise ValueError(f"{column.name}: {', '.join(sorted(unknown))} is no face; faces: {', '.join(FACES)}")
            if column.faces.intersection(_TITLED) and not column.title:
                raise ValueError(f"{column.name} needs a title: it is in a table")
            if "answer" in column.faces and callable(column.value):
                raise ValueError(f"{column.name}: a column of REST is read by a path, not by a function")

    def _names(self) -> list[str]:
        return [column.name for column in self.columns]

    def _paths(self) -> list[str]:
        return [column.value for column in self.columns if isinstance(column.value, str) and column.value]

    @cached_property
    def _by_face(self) -> dict[str, tuple[Column, ...]]:
        columns = {}
        for face in FACES:
            place = {name: i for i, name in enumerate(self.orders.get(face, "").split())}
            there = (column for column in self.columns if face in column.faces)
            columns[face] = tuple(sorted(there, key=lambda column: place.get(column.name, len(place))))
        return columns

    def on(self, face: str) -> tuple[Column, ...]:
        """The columns of a face in its order."""
        return self._by_face[face]

    def names(self, face: str) -> list[str]:
        return [column.name for column in self.on(face)]


@dataclass(frozen=True)
class Table:
    """Rows for `{% table %}`."""

    columns: Sequence[Column]
    rows: Sequence[Any]
    cells: str


def table_of(listing: Listing, rows: Sequence[Any], face: str = "table") -> Table:
    return Table(listing.on(face), rows, listing.cells)


def answer_serializer(listing: Listing, component: str, **more: AnyField) -> type[AnySerializer]:
    """The serializer of a row in REST. component: its name in OpenAPI. more: fields that are no columns."""
    return serializer_class(component, {**{column.name: column.field for column in listing.on("answer")}, **more})


def file_columns(listing: Listing) -> list[tables.Column]:
    """Columns of the table that REST sends."""
    return [tables.Column(column.name, column.file_kind) for column in listing.on("file")]


def file_rows(listing: Listing, rows: Iterable[Any]) -> Iterator[list[Any]]:
    columns = listing.on("file")
    return ([column.read(row) for column in columns] for row in rows)


def csv_rows(columns: Sequence[Column], rows: Iterable[Any]) -> Iterator[list[Any]]:
    """Cells for `csv_response`: numbers unrounded, instants in UTC, nothing for None."""
    for row in rows:
        yield [csv_cell(column.read(row)) for column in columns]


def csv_cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return "" if value is None else value


def text_lines(columns: Sequence[Column], rows: Iterable[Any]) -> Iterator[str]:
    """A heading and a line for each row, in columns of equal width, for commands. Numbers have six digits."""
    table = [[column.name for column in columns]]
    table += [[_text_cell(column.read(row)) for column in columns] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
    for line in table:
        padded = (
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        )
        yield "  ".join(padded).rstrip()


def _text_cell(value: Any) -> str:
    return "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
