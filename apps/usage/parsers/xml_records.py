"""Parse XML of any length record by record in bounded memory; entities, and document types but the one that a format
writes itself, are rejected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple
from xml.parsers import expat

from apps.core.errors import Invalid
from apps.usage.parsers.base import Parsed, RecordBatch, RecordRow, Rejection, excerpt
from apps.usage.parsers.field_values import BadRecord
from apps.usage.parsers.lines import Notes

MOST_XML_DEPTH = 32
MOST_ELEMENTS = 2_000  # per record
LONGEST_XML_TEXT = 64 * 1024  # per record, and per piece of markup
_READ = 64 * 1024
_PIECE_RECORDS = 5_000


@dataclass(slots=True)
class Node:
    """An element: local name, attributes and children, without namespaces."""

    name: str
    attributes: dict[str, str]
    line: int
    text: str = ""
    children: list[Node] = field(default_factory=list)
    is_too_large: bool = False

    def find(self, *path: str) -> Node | None:
        node: Node | None = self
        for name in path:
            node = next((child for child in node.children if child.name == name), None) if node else None
        return node

    def get(self, *path: str) -> str:
        """Stripped text of the first element at the path; empty if there is none."""
        element = self.find(*path)
        return element.text.strip() if element else ""

    def all(self, name: str) -> list[Node]:
        return [child for child in self.children if child.name == name]


TakeRecord = Callable[[Node, Notes], RecordRow | Sequence[RecordRow] | None]


class XmlLimits(NamedTuple):
    """elements, characters: of a record. kept: names of the elements that are read, if not all are; others, such as a
    list of thousands of hosts, are left out with what is in them, and have no bound. doctype: the outermost element of
    which a document type may be declared, by name and address alone; nothing is fetched.
    """

    elements: int = MOST_ELEMENTS
    characters: int = LONGEST_XML_TEXT
    doctype: str = ""
    kept: frozenset[str] = frozenset()


USUAL_XML = XmlLimits()


def parse_xml(
    stream: BinaryIO,
    names: frozenset[str],
    take: TakeRecord,
    resume: Mapping[str, Any] | None,
    *,
    listing: str = "",
    limits: XmlLimits = USUAL_XML,
) -> Iterator[Parsed]:
    """Parse a document whose records are the elements `names`, in pieces.

    The number of a record is used as its line number; messages also name the line. `resume` counts finished records,
    which are read again and skipped. A document that is not well-formed ends the reading, and the records before the
    error count. A listing (its outermost element is `listing`) is rejected as a whole, since jobs missing in it have
    not vanished.

    Raises:
        Invalid: a document type or entities, too deep nesting or too long markup; or not the expected listing, or an
        incomplete one.
    """
    n_done = int((resume or {}).get("records", 0))
    piece = _Piece(n_done, limits=limits)
    reader = _Reader(names, listing, limits)
    for at, record in _records(stream, reader):
        if listing and isinstance(record, BadRecord):
            gone = "An incomplete listing doesn't show which jobs are gone: ask again."
            message = f"Line {record.line}: {record.message} {gone}"
            raise Invalid(message, code="cut_off")
        piece.offset = at
        piece.add(record, take)
        if piece.n_records >= _PIECE_RECORDS:
            yield piece.parsed()
            piece = _Piece(n_done, piece.number, at, limits)
    if piece.n_records or piece.rejections:
        yield piece.parsed()


class _Piece:
    def __init__(self, n_done: int, number: int = 0, offset: int = 0, limits: XmlLimits = USUAL_XML) -> None:
        self._n_done, self._limits = n_done, limits
        self.number = number  # of the last record, from 1
        self.offset = offset
        self.n_records = 0
        self.rejections: list[Rejection] = []
        self._rows: list[RecordRow] = []
        self._numbers: list[int] = []
        self._notes: Notes = Notes()

    def add(self, record: Node | BadRecord, take: TakeRecord) -> None:
        self.number += 1
        if self.number <= self._n_done:
            return
        self.n_records += 1
        try:
            if isinstance(record, BadRecord):
                raise record
            if record.is_too_large:
                n_elements, n_characters = self._limits.elements, self._limits.characters
                raise BadRecord("too_large", f"It has over {n_elements} elements or {n_characters // 1024} KB of text.")
            made = take(record, self._notes)
        except BadRecord as bad:
            prefix = f"Line {record.line}: " if record.line else ""
            self.rejections.append(Rejection(self.number, bad.code, prefix + bad.message))
        else:
            rows = [made] if isinstance(made, RecordRow) else made or ()
            self._rows += rows
            self._numbers += [self.number] * len(rows)

    def parsed(self) -> Parsed:
        batch = RecordBatch.from_rows(self._rows, self._numbers)
        resume = {"records": max(self.number, self._n_done)}
        return Parsed(batch, self.rejections, dict(self._notes), resume, self.n_records, self.offset)


def _records(stream: BinaryIO, reader: _Reader) -> Iterator[tuple[int, Node | BadRecord]]:
    """Yield each record with the number of bytes read so far."""
    n_read, broken = 0, False
    while not broken:
        data = stream.read(_READ)
        n_read += len(data)
        broken = reader.feed(data) or not data
        yield from ((n_read, record) for record in reader.drain())


class _Reader:
    """Event handlers for one document; `found` collects its records."""

    def __init__(self, names: frozenset[str], root: str = "", limits: XmlLimits = USUAL_XML) -> None:
        self._names, self._limits = names, limits
        self._root = root  # required outermost element; any if empty
        self._found: list[Node | BadRecord] = []
        self._open: list[Node] = []  # open elements, from the record inwards
        self._depth = self._n_elements = self._n_text = self._n_fed = 0
        self._n_left_out = 0  # open elements within one that isn't read, with it
        self._parser = expat.ParserCreate()
        self._parser.StartDoctypeDeclHandler = self._begin_doctype
        self._parser.EntityDeclHandler = self._doctype
        self._parser.ExternalEntityRefHandler = self._doctype
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.buffer_text = True

    def drain(self) -> list[Node | BadRecord]:
        records, self._found = self._found, []
        return records

    def feed(self, data: bytes) -> bool:
        """Parse data; returns whether the document is not well-formed here, which rejects a record and ends the
        reading.
        """
        self._n_fed += len(data)
        try:
            self._parser.Parse(data, not data)
        except expat.ExpatError as error:
            why = expat.ErrorString(error.code) or "it is not XML"
            message = f"The XML is broken at column {error.offset + 1} ({why}): what follows was not read."
            self._found.append(BadRecord("broken_xml", message, error.lineno))
            return True
        except (ValueError, LookupError, UnicodeError) as error:  # an unknown encoding
            message = f"Its encoding can't be read ({error}): send it as UTF-8."
            self._found.append(BadRecord("bad_encoding", message, self._parser.CurrentLineNumber))
            return True
        if data and self._n_fed - self._parser.CurrentByteIndex > LONGEST_XML_TEXT + 2 * _READ:
            raise Invalid(
                f"Line {self._parser.CurrentLineNumber} contains a piece of markup of over {LONGEST_XML_TEXT // 1024}"
                " KB: this is not a list of job records.",
                code="markup_too_long",
            )
        return False

    def _begin_doctype(self, name: str, _system: object, _public: object, has_own_part: int) -> None:
        if has_own_part or not self._limits.doctype or name != self._limits.doctype:
            self._doctype()

    def _doctype(self, *_: object) -> int:
        raise Invalid(
            f"Line {self._parser.CurrentLineNumber} declares a document type or an entity: such XML is not read. "
            "Remove the <!DOCTYPE …> and send the file again.",
            code="xml_doctype",
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MOST_XML_DEPTH:
            line = self._parser.CurrentLineNumber
            raise Invalid(f"Line {line}: elements are nested over {MOST_XML_DEPTH} deep.", code="nested_too_deep")
        local_name = _local(name)
        if self._depth == 1 and self._root not in ("", local_name):
            message = f"The document is <{excerpt(local_name)}>, not <{self._root}>: it lists no jobs."
            raise Invalid(message, code="no_listing")
        if not self._open and local_name not in self._names:
            return
        if self._n_left_out or (self._open and self._limits.kept and local_name not in self._limits.kept):
            self._n_left_out += 1
            return
        if not self._open:
            self._n_elements = self._n_text = 0
        local_attributes = {_local(key): value for key, value in attributes.items()} if attributes else {}
        node = Node(local_name, local_attributes, self._parser.CurrentLineNumber)
        self._n_elements += 1
        self._n_text += sum(map(len, local_attributes.values()))
        if self._open and not self._is_full():
            self._open[-1].children.append(node)
        self._open.append(node)

    def _end(self, _: str) -> None:
        self._depth -= 1
        if self._n_left_out:
            self._n_left_out -= 1
            return
        if not self._open:
            return
        node = self._open.pop()
        if not self._open:
            node.is_too_large = self._is_full()
            self._found.append(node)

    def _characters(self, text: str) -> None:
        if not self._open or self._n_left_out:
            return
        self._n_text += len(text)
        if not self._is_full():
            self._open[-1].text += text

    def _is_full(self) -> bool:
        return self._n_elements > self._limits.elements or self._n_text > self._limits.characters


@lru_cache(maxsize=256)  # the same names occur in each record
def _local(name: str) -> str:
    return name.rpartition(":")[2]
