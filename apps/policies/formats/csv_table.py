"""A table with one row per entry, for spreadsheets: path, kind, shares, scope, sources, lock and uid."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

from django.utils.translation import gettext_noop

from apps.policies.files.parsed_document import DocumentBuilder, ParsedDocument
from apps.policies.files.plain_leaves import Entries, shares_texts, uid_texts
from apps.policies.formats.base import Format, invalid_line, refuse_many_lines
from apps.policies.formats.separated_table import (
    SEPARATOR_LINE,
    SeparatedTable,
    decimal_mark,
    escape_formula,
    unescape_formula,
    without_thousands,
)
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import SCOPES, TreeColumns
from apps.policies.tree.names import PARENT, RESERVE

COLUMNS = ("path", "kind", "shares", "scope", "sources", "locked", "uid")
_LINES_AT_ONCE = 10_000
_OTHER_NAMES = {"percent": "percent", "share": "shares", "entry": "path"}
_CARRIES = {
    "kind": ("kind", "is_group"),
    "shares": ("shares",),
    "percent": ("shares",),
    "scope": ("scope", "scope_sources"),
    "locked": ("locked",),
}
_NUMBER = re.compile(r"(\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_YES, _NO = frozenset({"true", "yes", "1"}), frozenset({"false", "no", "0", ""})


def read(text: str) -> ParsedDocument:
    refuse_many_lines(text)
    table = SeparatedTable(text, columns=(*COLUMNS, "percent"), other_names=_OTHER_NAMES)
    if {"shares", "percent"} <= set(table.columns):
        raise invalid_line(
            1, f"a column is repeated: percent takes the place of shares; known are {', '.join(COLUMNS)}"
        )
    rows = [row for line, cells in table if (row := _Row(line, cells))]
    numbers = (row.cells.get(column, "") for row in rows for column in ("shares", "percent"))
    mark = decimal_mark(numbers, has_plain_decimals=table.has_plain_decimals)
    taken = _TableEntries(table.columns, mark)
    for row in sorted(rows, key=lambda row: row.depth):
        taken.take(row)
    taken.check_percentages()
    carries = {value for column in table.columns for value in _CARRIES.get(column, ())}
    return taken.finish(carries=frozenset(carries), says=taken.says)


class _Row:
    """One line: its cells by column, and its path in steps."""

    __slots__ = ("cells", "formula", "line", "steps")

    def __init__(self, line: int, cells: dict[str, str]) -> None:
        self.line, self.cells = line, cells
        path = cells["path"].strip()
        self.formula = ""
        try:
            path = unescape_formula(path)
        except ValueError as error:
            self.formula = str(error)
        self.steps = path.strip("/").split("/") if path.strip("/") else []

    @property
    def depth(self) -> int:
        return len(self.steps)

    def __bool__(self) -> bool:
        return any(self.cells.values())


class _TableEntries(DocumentBuilder):
    """Builds entries from rows, parents first; ancestors without a row are only part of a path."""

    def __init__(self, columns: Sequence[str], mark: str) -> None:
        super().__init__()
        self._decimal_mark = mark
        self.says: list[bool] = []
        self._columns = columns
        self._percent: dict[int, float] = {}
        self.add(-1, "root", is_group=True)
        self.says.append(False)

    def take(self, row: _Row) -> None:
        if row.formula:
            self.problem(-1, "path", row.formula, row.line)
            return
        parent = self._way_to(row)
        if parent is None:
            return
        cells = row.cells
        if not row.steps:
            if self.says[0]:
                self.problem(0, "path", f"is repeated, first in line {self.line[0]}", row.line)
            self.line[0], self.says[0] = row.line, True
            if kind := self._text(0, cells, "kind", row.line):
                self.kind[0] = self._kind(0, kind)
            self._set_more(0, cells)
            return
        at = len(self.name)
        entry = self.add(parent, row.steps[-1], line=row.line, place="path", uid=cells.get("uid", "").strip() or None)
        if entry < 0:
            return
        self.says.append(True)
        kind = self._text(at, cells, "kind", row.line)
        self.kind[at] = self._kind(at, kind or "group") if "kind" in cells else 0
        self._set_shares(at, cells)
        self._set_more(at, cells)

    def _way_to(self, row: _Row) -> int | None:
        """Return the row of the parent; add ancestors that the table lacks."""
        entry = 0
        for step in row.steps[:-1]:
            known = self.child(entry, step)
            if known is None:
                known = self.add(entry, step, line=row.line, place="path")
                if known < 0:
                    return None
                self.says.append(False)
            entry = known
        return entry

    def _text(self, at: int, cells: dict[str, str], column: str, line: int) -> str:
        try:
            return unescape_formula(cells.get(column, "").strip())
        except ValueError as error:
            self.problem(at, column, str(error), line)
            return ""

    def _set_shares(self, at: int, cells: dict[str, str]) -> None:
        column = "percent" if "percent" in cells else "shares"
        if column not in cells:
            return
        try:
            shares = self._number(at, cells[column].strip(), is_percent=column == "percent")
        except ValueError as error:
            self.problem(at, column, str(error))
            return
        self.shares.pop()
        self.inherit.pop()
        self._weigh(at, shares)

    def _number(self, at: int, text: str, *, is_percent: bool) -> float | str:
        if text.lower() in (PARENT, "inherit"):
            return PARENT
        number = text.removesuffix("%").rstrip()
        is_percent = is_percent or number != text
        if not text:
            raise ValueError(f'is empty; write a number, or "{PARENT}"')
        number = without_thousands(number, self._decimal_mark, is_percent=is_percent)
        if text.lstrip("'").startswith(("=", "@", "＝", "＠")):
            raise ValueError(f"{text[:40]!r} is a formula; write its result")
        if not _NUMBER.fullmatch(number):
            raise ValueError(f'{text[:40]!r} is neither a number from 0 up nor "{PARENT}"')
        value = float(number)
        if is_percent:
            if value > 100:
                raise ValueError(f"{text[:40]} is more than 100 %")
            self._percent[at] = value
        return value

    def _set_more(self, at: int, cells: dict[str, str]) -> None:
        line = self.line[at]
        scope = self._text(at, cells, "scope", line)
        sources = self._text(at, cells, "sources", line)
        if scope or sources:
            self.set_scope(at, scope, [slug.strip() for slug in sources.split(";") if slug.strip()])
        locked = cells.get("locked", "").strip().lower()
        if locked in _YES:
            self.set_locked(at, True)
        elif locked not in _NO:
            self.problem(at, "locked", f"{locked[:20]!r} is neither yes nor no")

    def check_percentages(self) -> None:
        """Check that percentages are given for a whole group and add up to 100."""
        for parent, names in list(self._children.items()):
            rows = [child for child in names.values() if child in self._percent]
            if not rows:
                continue
            total = sum(self._percent[child] for child in rows)
            missing = [child for child in names.values() if child not in self._percent and self.says[child]]
            if missing:
                self.problem(missing[0], "shares", "has no percentage, but siblings have")
            elif total > 100 + 1e-6:
                self.problem(
                    rows[0],
                    "shares",
                    f"the entries below {self.path(parent)} have {total:.6g} % together, more than 100",
                )
            elif total < 100 - 0.1:
                message = f"the entries below {self.path(parent)} have only {total:.6g} % together"
                self.problem(rows[0], "shares", f"{message}; add one of kind {RESERVE} with the rest")


def write(tree: TreeColumns, settings: PolicySettings) -> Iterator[str]:
    yield ",".join(COLUMNS) + "\r\n"
    for begin in range(0, len(tree), _LINES_AT_ONCE):
        yield _lines(tree, tree.listed[begin : begin + _LINES_AT_ONCE])


def _lines(tree: TreeColumns, entries: Entries) -> str:
    rows, kinds = entries.tolist(), [*map(_quoted, tree.kind_names)]
    columns = zip(
        map(_quoted, tree.paths(entries)),
        map(kinds.__getitem__, tree.kind_code[entries].tolist()),
        shares_texts(tree, entries, lambda value: value if isinstance(value, str) else json.dumps(value)),
        map(SCOPES.__getitem__, tree.scope_code[entries].tolist()),
        [_quoted(";".join(tree.scope_sources.get(i, ()))) for i in rows] if tree.scope_sources else repeat(""),
        map(("", "yes").__getitem__, tree.locked[entries].tolist()),
        uid_texts(tree.uid[entries]),
        strict=False,  # what repeats has no end
    )
    return "".join(
        f"{path},{kind},{shares if i else ''},{scope},{sources},{locked},{uid}\r\n"
        for i, (path, kind, shares, scope, sources, locked, uid) in zip(rows, columns, strict=True)
    )


def _quoted(text: str) -> str:
    return '"' + escape_formula(text).replace('"', '""') + '"' if text else ""


def fit(tree: TreeColumns) -> TreeColumns:
    """Drop dates, membership rules, mounts, the root's name, and the difference between empty groups and leaves."""
    has_children = (tree.n_children > 0) | (tree.parent < 0)
    sources: dict[int, Any] = {
        i: slugs for i, slugs in tree.scope_sources.items() if not any(";" in slug for slug in slugs)
    }
    return replace(
        tree,
        name=["root", *tree.name[1:]],
        is_group=has_children,
        dates={},
        members={},
        mount={},
        scope_sources=sources,
    )


def _looks_like(text: str) -> bool:
    lines = (line for line in text.split("\n") if line.strip() and not SEPARATOR_LINE.fullmatch(line))
    first = next(lines, "")
    return "path" in re.split(r'[,;\t"\s]+', first.lower())


FORMAT = Format(
    name="csv",
    label=gettext_noop("CSV table"),
    reference="https://www.rfc-editor.org/rfc/rfc4180",
    sample="""\
path,kind,shares
/physics,vo,30
/physics/alice,user,2
/physics/bob,user,parent
/reserve,reserve,20
""",
    media_type="text/csv",
    suffix=".csv",
    carries=("uid", "name", "kind", "shares", "inherit", "scope", "locks"),
    read=read,
    write=write,
    looks_like=_looks_like,
    fit=fit,
)
