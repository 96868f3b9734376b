"""A table with one row per entry, for spreadsheets: path, kind, shares, scope, sources, lock and uid."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from django.utils.translation import gettext_noop

from apps.core.invisible import visible
from apps.policies.files.document import plain_number
from apps.policies.files.parsed_document import DocumentBuilder, ParsedDocument
from apps.policies.formats.base import Format, invalid_line, refuse_many_lines, wrong_format
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import PARENT, RESERVE

COLUMNS = ("path", "kind", "shares", "scope", "sources", "locked", "uid")
_OTHER_NAMES = {"percent": "percent", "share": "shares", "entry": "path"}
_CARRIES = {
    "kind": ("kind", "is_group"),
    "shares": ("shares",),
    "percent": ("shares",),
    "scope": ("scope", "scope_sources"),
    "locked": ("locked",),
}
_FORMULA = re.compile(r"\s*[=+\-@\t\r＝＋－＠]")
_NUMBER = re.compile(r"(\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_GROUPS = {mark: re.compile(rf"[1-9]\d{{0,2}}(?:\{mark}\d{{3}})+", re.ASCII) for mark in ".,"}
_AMBIGUOUS = re.compile(r"[1-9]\d{0,2}(?:[.,]\d{3})*,\d{3}|[1-9]\d{0,2}\.\d{3}", re.ASCII)
# A number with this decimal mark: it has other than three digits, a zero alone before it, or the other mark for
# thousands.
_IS_DECIMAL = {
    mark: re.compile(rf"\d*\{mark}(?!\d{{3}}$)\d+|0?\{mark}\d+|\d{{1,3}}(?:\{other}\d{{3}})+\{mark}\d+", re.ASCII)
    for mark, other in ((".", ","), (",", "."))
}
_SEPARATOR_LINE = re.compile(r"\s*\"?sep=(.?)\"?\s*", re.IGNORECASE)  # the first line of a file for Excel
_YES, _NO = frozenset({"true", "yes", "1"}), frozenset({"false", "no", "0", ""})


def escape_formula(cell: str) -> str:
    """Prefix an apostrophe to text that a spreadsheet would run as a formula, and to such text that already has one."""
    return f"'{cell}" if _is_formula(visible(cell).lstrip("'")) else cell


def unescape_formula(cell: str) -> str:
    """Undo `escape_formula`; raise ValueError for a formula."""
    if cell.startswith("'") and _is_formula(visible(cell).lstrip("'")):
        return cell[1:]
    if _is_formula(visible(cell)):
        raise ValueError(
            f"{cell[:40]!r} would be run as a formula; if it is meant as text, put an apostrophe before it"
        )
    return cell


def _is_formula(shown: str) -> bool:
    return _FORMULA.match(shown) is not None


def read(text: str) -> ParsedDocument:
    refuse_many_lines(text)
    table = _Table(text)
    rows = [row for row in table if row]
    taken = _TableEntries(table, _decimal_mark(rows, table))
    for row in sorted(rows, key=lambda row: row.depth):
        taken.take(row)
    taken.check_percentages()
    carries = {value for column in table.columns for value in _CARRIES.get(column, ())}
    return taken.finish(carries=frozenset(carries), says=taken.says)


def _decimal_mark(rows: Sequence[_Row], table: _Table) -> str:
    """The decimal mark that the numbers of a table prove, or its separator suggests; "" if neither does."""
    numbers = [_bare(row.cells.get(column, "")) for row in rows for column in ("shares", "percent")]
    proven = {mark for mark in ".," if any(map(_IS_DECIMAL[mark].fullmatch, numbers))}
    if len(proven) == 1:
        return proven.pop()
    return "." if table.has_plain_decimals and not proven else ""


def _bare(cell: str) -> str:
    return cell.strip().removesuffix("%").rstrip()


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


class _Table:
    """Rows of a text, with any separator and any order of columns."""

    def __init__(self, text: str) -> None:
        lines = (line for line in text.split("\n") if line.strip())
        first = next(lines, "")
        named = _SEPARATOR_LINE.fullmatch(first)
        header = next(lines, "") if named else first
        counts = {mark: header.count(mark) for mark in ",;\t"}
        self._mark = (named and named[1]) or max(counts, key=lambda mark: counts[mark])
        self._reader = csv.reader(io.StringIO(text, newline=""), delimiter=self._mark, strict=True)
        if named:
            next(self._lines())
        names = [name.strip().lower() for name in next(self._lines(), [])]
        self.columns = [_OTHER_NAMES.get(name, name) for name in names]
        known = {*COLUMNS, "percent"}
        if "path" not in self.columns:
            raise wrong_format("CSV table", 1, f"its first line names no column path; known are {', '.join(COLUMNS)}")
        unknown = [name for name in self.columns if name not in known]
        if unknown or len(set(self.columns)) != len(self.columns) or {"shares", "percent"} <= set(self.columns):
            problem = f"{unknown[0]!r:.40} is unknown" if unknown else "a column is repeated"
            raise invalid_line(1, f"{problem}; known are {', '.join(COLUMNS)}, or percent for shares")

    @property
    def has_plain_decimals(self) -> bool:
        """Whether a comma separates the cells, so that a number without quotes has a decimal point."""
        return self._mark == ","

    def _lines(self) -> Iterator[list[str]]:
        try:
            for cells in self._reader:
                if any(cell.strip() for cell in cells):
                    yield cells
        except csv.Error as error:
            raise wrong_format("CSV table", self._reader.line_num, str(error)) from None

    def __iter__(self) -> Iterator[_Row]:
        for cells in self._lines():
            line = self._reader.line_num
            if len(cells) > len(self.columns) and any(cells[len(self.columns) :]):
                problem = f"has {len(cells)} cells, the first line {len(self.columns)}"
                raise invalid_line(line, f"{problem}; put cells with {self._mark} in quotes")
            yield _Row(line, dict(zip(self.columns, [*cells, *[""] * len(self.columns)], strict=False)))


class _TableEntries(DocumentBuilder):
    """Builds entries from rows, parents first; ancestors without a row are only part of a path."""

    def __init__(self, table: _Table, decimal_mark: str) -> None:
        super().__init__()
        self._decimal_mark = decimal_mark
        self.says: list[bool] = []
        self._columns = table.columns
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
        number = self._plain(number, is_percent=is_percent)
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

    def _plain(self, number: str, *, is_percent: bool) -> str:
        """The number with a decimal point and without marks of thousands; raise ValueError if it may be two numbers."""
        mark = self._decimal_mark
        if is_percent and not mark and _GROUPS["."].fullmatch(number) and number.count(".") == 1:
            mark = "."  # thousands of per cent aren't meant
        if _AMBIGUOUS.fullmatch(number) and (not mark or "," in number):
            bare, decimal = number.replace(",", "").replace(".", ""), number.replace(",", ".")
            first, _, last = decimal.rpartition(".")
            fraction = last if "," in number else f"{last}0"  # a fourth digit, which isn't asked about again
            whole = first.replace(".", "")
            raise ValueError(f"{number!r} may be {bare} or {whole}.{fraction}; write it as one of these")
        if "," in number and "." in number:
            mark = max(",.", key=number.rfind)
        thousands = "," if mark == "." else "."
        whole, point, rest = number.partition(mark) if mark else (number, "", "")
        if _GROUPS[thousands].fullmatch(whole):
            whole = whole.replace(thousands, "")
        return f"{whole}{point}{rest}".replace(",", ".")

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
    paths, nodes = _paths(tree), list(tree.nodes())
    for i in tree.listed.tolist():
        path, node = paths[i], nodes[i]
        shares = "" if path == "/" else PARENT if node.shares is None else json.dumps(plain_number(node.shares))
        sources = ";".join(node.scope_sources)
        cells = [_quoted(path), _quoted(node.kind), shares, node.scope, _quoted(sources), "yes" if node.locked else ""]
        yield ",".join([*cells, str(node.uid)]) + "\r\n"


def _quoted(text: str) -> str:
    return '"' + escape_formula(text).replace('"', '""') + '"' if text else ""


def _paths(tree: TreeColumns) -> list[str]:
    paths = ["/"]
    for parent, name in zip(tree.parent[1:].tolist(), tree.name[1:], strict=True):
        paths.append(f"{paths[parent]}/{name}" if parent else f"/{name}")
    return paths


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
    lines = (line for line in text.split("\n") if line.strip() and not _SEPARATOR_LINE.fullmatch(line))
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
