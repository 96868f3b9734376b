"""Split sacct's parsable output into rows, although names and commands may contain separators and line breaks
unescaped.

A row with too many fields is aligned to the columns so that each column of a known form (times, counts, states) gets
one field of that form, and only free-text columns get several. A row with too few fields continues in the next line.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

import numpy as np

from apps.usage.parsers.base import Rejection, excerpt
from apps.usage.parsers.lines import MOST_LINE_BYTES
from apps.usage.parsers.sacct_header import NOTED, Columns, fits

_UNIT = b"\x1f"  # the unit separator of ASCII
MOST_LINES_OF_ROW = 200  # per row
_MOST_EXTRA = 300  # additional fields per row
_MOST_TRIES = 20
TOO_LONG = f"The line is longer than {MOST_LINE_BYTES // 1024**2} MB. Leave SubmitLine out of --format, or use --json."
_REMEDY = "Leave free text (SubmitLine, JobName, Comment) out of --format, or use --json."

Fields = tuple[bytes, ...]
Texts = dict[str, Sequence[bytes]]  # column name → one text per row


@dataclass(slots=True)
class Rows:
    """The needed columns of whole rows, the numbers of their first lines, and the incomplete rest."""

    texts: Texts = field(default_factory=dict)
    lines: list[int] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)
    rest: bytes = b""  # start of an incomplete row
    has_zeros: bool = False

    def note(self, name: str) -> None:
        self.notes[name] = self.notes.get(name, 0) + 1

    def shown(self, row: int) -> str:
        return excerpt(b"|".join(texts[row] for texts in self.texts.values()))


def read_rows(data: bytes, first_line: int, columns: Columns, *, at_end: bool, is_first: bool = True) -> Rows:
    """Split whole lines into whole rows.

    at_end: no more data follows, so incomplete rows stay incomplete. is_first: no row precedes these lines.
    """
    text = data.replace(b"\r\n", b"\n") if b"\r" in data else data
    text = text.removesuffix(b"\n")
    if len(columns.delimiter) > 1:
        text, columns = text.replace(_UNIT, b"?").replace(columns.delimiter, _UNIT), replace(columns, delimiter=_UNIT)
    if columns.has_quotes and b'"' in text:
        text, columns = _without_quotes(text, columns), replace(columns, delimiter=_UNIT)
    rows = _all_at_once(text, first_line, columns)
    if rows is not None:
        rows.has_zeros = b"\0" in data
        return rows
    reader = _Reader(text.split(b"\n"), first_line, columns, at_end, is_first)
    reader.run()
    reader.rows.has_zeros = b"\0" in data
    if reader.rest_lines:
        lines = data.split(b"\n")
        n_lines = len(lines) - (not lines[-1])
        reader.rows.rest = b"\n".join(lines[n_lines - reader.rest_lines :])
    return reader.rows


def _without_quotes(text: bytes, columns: Columns) -> bytes:
    """Lines of a spreadsheet with fields separated by _UNIT, and without the quotes around them."""
    return b"\n".join(_UNIT.join(_fields(line, columns)) for line in text.split(b"\n"))


def _fields(line: bytes, columns: Columns) -> list[bytes]:
    plain = line.replace(_UNIT, b"?").split(columns.delimiter)
    if b'"' not in line:
        return plain
    text = line.replace(_UNIT, b"?").decode("utf-8", "surrogateescape")
    try:
        quoted = next(csv.reader([text], delimiter=columns.delimiter.decode()), [])
    except csv.Error:
        return plain
    if len(plain) == columns.n_fields != len(quoted):  # a quote of the value itself
        return plain
    return [field.encode("utf-8", "surrogateescape") for field in quoted]


def _all_at_once(text: bytes, first_line: int, columns: Columns) -> Rows | None:
    """Split lines of one row each at once; None if a line isn't one row."""
    letters = np.frombuffer(text, np.uint8)
    ends = np.append(np.flatnonzero(letters == 10), len(letters))
    if np.diff(ends, prepend=-1).max() > MOST_LINE_BYTES:
        return None
    bars = np.searchsorted(np.flatnonzero(letters == columns.delimiter[0]), ends)
    n = columns.n_fields
    if (np.diff(bars, prepend=0) != n - 1).any():
        return None
    flat = text.replace(b"\n", columns.delimiter).split(columns.delimiter)
    texts = {name: flat[index::n] for name, index in zip(columns.read, columns.indices, strict=True)}
    return Rows(dict(texts), list(range(first_line, first_line + len(ends))))


class _Reader:
    def __init__(self, lines: list[bytes], first_line: int, columns: Columns, at_end: bool, is_first: bool) -> None:
        self._lines = lines
        self._split = [line.split(columns.delimiter) for line in lines]
        self._first_line = first_line
        self._columns = columns
        self._at_end = at_end
        self._is_first = is_first
        self._taken: list[Fields] = []
        self.rows = Rows()
        self.rest_lines = 0

    def run(self) -> None:
        n_fields, pick = self._columns.n_fields, picker(self._columns)
        index = 0
        while index < len(self._split):
            fields = self._split[index]
            if len(self._lines[index]) > MOST_LINE_BYTES:
                line = self._first_line + index
                self.rows.rejections.append(Rejection(line, "line_too_long", TOO_LONG, excerpt(self._lines[index])))
                index += 1
            elif len(fields) == n_fields and not self._is_part(index):
                self._import_piece(index, pick(fields))
                index += 1
            elif len(fields) == 1 and not fields[0].strip():
                index += 1
            else:
                index = self._read_irregular(index)
        if self._taken:
            self.rows.texts = dict(zip(self._columns.read, zip(*self._taken, strict=True), strict=True))

    def _is_part(self, index: int) -> bool:
        """Whether a line with the right number of fields is still only the start of a row."""
        after = index + 1
        goes_on = not self._at_end if after == len(self._split) else len(self._split[after]) != self._columns.n_fields
        return goes_on and bool(self._columns.free) and not fits(self._columns, self._split[index])

    def _import_piece(self, index: int, fields: Fields) -> None:
        self._taken.append(fields)
        self.rows.lines.append(self._first_line + index)

    def _read_irregular(self, index: int) -> int:
        """Read a row with too many or too few fields; returns the position of the next row."""
        text, n_fields, end, tries = self._lines[index], len(self._split[index]), index + 1, 0
        while True:
            if n_fields >= self._columns.n_fields:
                tries += 1
                fields = align(text.split(self._columns.delimiter), self._columns)
                if fields is not None:
                    self._import_piece(index, fields)
                    self.rows.note("lines_joined" if end - index > 1 else "bars_in_text")
                    return end
            is_last = end == len(self._lines)
            is_too_much = len(text) > MOST_LINE_BYTES or end - index >= MOST_LINES_OF_ROW or tries >= _MOST_TRIES
            if is_last and not self._at_end and not is_too_much:
                self.rest_lines = end - index
                return end
            if is_last or is_too_much or self._begins(end):
                self._assign_or_reject(index, end, text.split(self._columns.delimiter))
                return end
            text += b"\n" + self._lines[end]
            n_fields += len(self._split[end]) - 1
            end += 1

    def _assign_or_reject(self, index: int, end: int, fields: list[bytes]) -> None:
        """Assign the fields of an irregular row if that is unambiguous, else reject it."""
        columns, extra = self._columns, len(fields) - self._columns.n_fields
        if extra >= 0 and len(columns.free) == 1 and not columns.is_trailing:
            self._import_piece(index, _select_around(fields, columns, extra))
        elif extra == 0:
            self._import_piece(index, picker(columns)(fields))
        elif self._is_continuation(index, end, len(fields)):
            self.rows.note("lines_joined")
        else:
            self._reject(index, end, len(fields))

    def _begins(self, index: int) -> bool:
        """Whether a row begins on this line: the line is a whole row, or starts like one."""
        fields, columns = self._split[index], self._columns
        if len(fields) == columns.n_fields:
            return fits(columns, fields)
        if len(fields) > columns.n_fields:
            return align(fields, columns) is not None
        if not columns.lead or len(fields) <= columns.lead:
            return False
        return fits(columns, fields[: columns.lead])

    def _is_continuation(self, index: int, end: int, n_fields: int) -> bool:
        """Whether lines continue the free text in the last column of a whole row: none of them starts like a row."""
        columns = self._columns
        is_text = bool(columns.free) and columns.free[-1] == len(columns.names) - 1 and not columns.is_trailing
        begin = (fits(columns, fields[: columns.lead]) for fields in self._split[index:end])
        is_other = n_fields == 1 or (columns.lead > 0 and not any(begin))
        return is_text and is_other and (bool(self._taken) or not self._is_first)

    def _reject(self, index: int, end: int, n_fields: int) -> None:
        line, columns = self._first_line + index, self._columns
        if n_fields < columns.n_fields:
            code, why = "too_few_fields", f"{n_fields} of {columns.n_fields} fields: the row is cut off."
        else:
            code = "ambiguous_row"
            why = f"{n_fields} fields for {columns.n_fields} columns: they can't be matched."
        n_lines = end - index
        lines = f" (lines {line} to {line + n_lines - 1})" if n_lines > 1 else ""
        shown = excerpt(self._lines[index])
        self.rows.rejections.append(Rejection(line, code, f"{why}{lines} {_REMEDY}", shown, n_lines))


def picker(columns: Columns) -> Callable[[list[bytes]], Fields]:
    """A function that selects the needed fields of a row."""
    if len(columns.indices) == 1:
        index = columns.indices[0]
        return lambda fields: (fields[index],)
    return itemgetter(*columns.indices)


def align(fields: list[bytes], columns: Columns) -> Fields | None:
    """Select the needed fields of a row with too many fields; None if the assignment is ambiguous. One that is
    only noted is empty then.

    Column i may be at field i + e, for e from 0 to the number of extra fields; e may grow only behind a free-text
    column. An e is possible if all columns before it and all after it match fields of their form.
    """
    extra = len(fields) - columns.n_fields
    if columns.is_trailing:
        if fields[-1]:
            return None
        fields = fields[:-1]
    if extra > _MOST_EXTRA or (extra and not columns.free):
        return None
    before = _possible_offsets(fields, columns, extra, is_backward=False)
    after = _possible_offsets(fields, columns, extra, is_backward=True)
    if before is None or after is None:
        return None
    picked = []
    for index in columns.indices:
        texts = {fields[index + e] for e in before[index] & after[index]}
        if len(texts) != 1 and columns.names[index] not in NOTED:
            return None
        picked.append(texts.pop() if len(texts) == 1 else b"")
    return tuple(picked)


def _possible_offsets(fields: list[bytes], columns: Columns, extra: int, *, is_backward: bool) -> list[set[int]] | None:
    """For each column the possible e, seen from the first column (or from the last)."""
    n = len(columns.names)
    possible = {extra if is_backward else 0}
    offsets: list[set[int]] = [set() for _ in range(n)]
    free = set(columns.free)
    for index in range(n - 1, -1, -1) if is_backward else range(n):
        shape = columns.shapes[index]
        if index in free:
            offsets[index] = possible
            possible = set(range(max(possible) + 1) if is_backward else range(min(possible), extra + 1))
            continue
        if shape is not None:
            possible = {e for e in possible if shape.fullmatch(fields[index + e])}
        if not possible:
            return None
        offsets[index] = possible
    return offsets


def _select_around(fields: list[bytes], columns: Columns, extra: int) -> Fields:
    """Select the fields around the only free-text column, where there is no ambiguity."""
    free = columns.free[0]
    return tuple(fields[index if index <= free else index + extra] for index in columns.indices)
