"""Rows of sacct's parsable output. It escapes nothing: names and commands may hold the sign between columns, and
line ends.

A row with more fields than columns is laid over them so that each column of a known shape (times, counts, states)
gets one field of that shape, and only free texts get more. A row with fewer goes on in the next line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter

from apps.usage.collectors.base import Rejection, excerpt
from apps.usage.collectors.lines import MOST_LINE_BYTES
from apps.usage.collectors.sacct_header import Columns, fits

MOST_LINES = 200  # of one row
_MOST_EXTRA = 2000  # fields over the columns
_MOST_TRIES = 50
_REMEDY = "Leave free text (SubmitLine, JobName, Comment) out of --format, or use --json."

Fields = tuple[bytes, ...]


@dataclass(slots=True)
class Rows:
    """The fields that matter of whole rows, with the lines on which they begin, and what is left for later."""

    fields: list[Fields] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)
    rest: bytes = b""  # the beginning of a row that isn't whole yet
    rest_lines: int = 0

    def note(self, name: str) -> None:
        self.notes[name] = self.notes.get(name, 0) + 1


def read_rows(data: bytes, first_line: int, columns: Columns, *, at_end: bool) -> Rows:
    """Whole lines in, whole rows out. `at_end`: nothing follows, so what isn't whole never will be."""
    rows = Rows()
    ends_line = data.endswith(b"\n")
    lines = data.split(b"\n")
    if ends_line:
        lines.pop()
    if b"\r" in data:
        lines = [line.removesuffix(b"\r") for line in lines]
    _Reader(lines, first_line, columns, at_end, rows).run()
    if rows.rest_lines:
        rows.rest = b"\n".join(data.split(b"\n")[len(lines) - rows.rest_lines :])
    return rows


class _Reader:
    def __init__(self, lines: list[bytes], first_line: int, columns: Columns, at_end: bool, rows: Rows) -> None:
        self._lines = lines
        self._split = [line.split(columns.delimiter) for line in lines]
        self._first_line = first_line
        self._columns = columns
        self._at_end = at_end
        self._rows = rows
        self._pick = picker(columns)

    def run(self) -> None:
        n_fields, pick = self._columns.n_fields, self._pick
        if all(len(fields) == n_fields for fields in self._split):
            self._rows.fields = [pick(fields) for fields in self._split]
            self._rows.lines = list(range(self._first_line, self._first_line + len(self._lines)))
            return
        place = 0
        while place < len(self._split):
            fields = self._split[place]
            if len(fields) == n_fields:
                self._take(place, pick(fields))
                place += 1
            elif len(fields) == 1 and not fields[0].strip():
                place += 1
            else:
                place = self._odd(place)

    def _take(self, place: int, fields: Fields) -> None:
        self._rows.fields.append(fields)
        self._rows.lines.append(self._first_line + place)

    def _odd(self, place: int) -> int:
        """A row with too many fields, or too few: where the next one begins."""
        text, n_fields, end, tries = self._lines[place], len(self._split[place]), place + 1, 0
        while True:
            if n_fields >= self._columns.n_fields:
                tries += 1
                found = lay_over(text.split(self._columns.delimiter), self._columns)
                if found is not None:
                    self._rows.note("bars_in_text" if n_fields > self._columns.n_fields else "lines_joined")
                    self._take(place, found)
                    return end
            if end == len(self._lines):
                if not self._at_end and len(text) <= MOST_LINE_BYTES and end - place <= MOST_LINES:
                    self._rows.rest_lines = end - place
                elif not self._goes_on(n_fields):
                    self._reject(place, end, n_fields)
                return end
            is_too_much = len(text) > MOST_LINE_BYTES or end - place >= MOST_LINES or tries >= _MOST_TRIES
            if is_too_much or self._begins(end):
                if not self._goes_on(n_fields):
                    self._reject(place, end, n_fields)
                return end
            text += b"\n" + self._lines[end]
            n_fields += len(self._split[end]) - 1
            end += 1

    def _begins(self, place: int) -> bool:
        """Whether a row begins on this line: it is whole, or it begins like one."""
        fields, columns = self._split[place], self._columns
        if len(fields) == columns.n_fields:
            return fits(columns, fields)
        if len(fields) > columns.n_fields:
            return lay_over(fields, columns) is not None
        if not columns.lead or len(fields) <= columns.lead:
            return False
        return fits(columns, fields[: columns.lead])

    def _goes_on(self, n_fields: int) -> bool:
        """Lines behind a whole row whose last column is free text, and had line ends in it."""
        columns = self._columns
        is_text = bool(columns.free) and columns.free[-1] == len(columns.names) - 1 and not columns.is_trailing
        is_more = is_text and n_fields == 1 and bool(self._rows.lines or self._first_line > 1)
        if is_more:
            self._rows.note("lines_joined")
        return is_more

    def _reject(self, place: int, end: int, n_fields: int) -> None:
        line, columns = self._first_line + place, self._columns
        if n_fields < columns.n_fields:
            code, why = "too_few_fields", f"{n_fields} of {columns.n_fields} fields: the row is cut off."
        else:
            code = "ambiguous_row"
            why = f"{n_fields} fields for {columns.n_fields} columns, and which belongs to which can't be told."
        lines = f" (lines {line} to {line + end - place - 1})" if end - place > 1 else ""
        self._rows.rejections.append(Rejection(line, code, f"{why}{lines} {_REMEDY}", excerpt(self._lines[place])))


def picker(columns: Columns) -> Callable[[list[bytes]], Fields]:
    """The fields that matter, of a list of all."""
    if len(columns.places) == 1:
        place = columns.places[0]
        return lambda fields: (fields[place],)
    return itemgetter(*columns.places)


def lay_over(fields: list[bytes], columns: Columns) -> Fields | None:
    """The fields that matter, when there are more fields than columns; None when it can't be told which they are.

    Column i may stand at field i + e, for e from 0 to the number of fields too many; behind a free text, e may have
    grown. An e counts when all columns before it and all after it find fields of their shape.
    """
    extra = len(fields) - columns.n_fields
    if columns.is_trailing:
        if fields[-1]:
            return None
        fields = fields[:-1]
    if extra > _MOST_EXTRA or (extra and not columns.free):
        return None
    before = _reach(fields, columns, extra, is_backward=False)
    after = _reach(fields, columns, extra, is_backward=True)
    if before is None or after is None:
        return _around(fields, columns, extra) if len(columns.free) == 1 and extra else None
    picked = []
    for place in columns.places:
        texts = {fields[place + e] for e in before[place] & after[place]}
        if len(texts) != 1:
            return None
        picked.append(texts.pop())
    return tuple(picked)


def _reach(fields: list[bytes], columns: Columns, extra: int, *, is_backward: bool) -> list[set[int]] | None:
    """For each column the e that are possible at it, seen from the first column (or from the last)."""
    n = len(columns.names)
    possible = {extra if is_backward else 0}
    found: list[set[int]] = [set() for _ in range(n)]
    free = set(columns.free)
    for place in range(n - 1, -1, -1) if is_backward else range(n):
        shape = columns.shapes[place]
        if place in free:
            found[place] = possible
            possible = set(range(max(possible) + 1) if is_backward else range(min(possible), extra + 1))
            continue
        if shape is not None:
            possible = {e for e in possible if shape.fullmatch(fields[place + e])}
        if not possible:
            return None
        found[place] = possible
    return found


def _around(fields: list[bytes], columns: Columns, extra: int) -> Fields:
    """With one free column there is no choice; what doesn't fit is told field by field."""
    free = columns.free[0]
    return tuple(fields[place if place <= free else place + extra] for place in columns.places)
