"""Tables of a spreadsheet: lines of cells with any separator, numbers with any decimal mark, and no formulas."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from apps.core.invisible import visible
from apps.policies.formats.base import invalid_line, wrong_format

_FORMULA = re.compile(r"\s*[=+\-@\t\r＝＋－＠]")
_GROUPS = {mark: re.compile(rf"[1-9]\d{{0,2}}(?:\{mark}\d{{3}})+", re.ASCII) for mark in ".,"}
_AMBIGUOUS = re.compile(r"[1-9]\d{0,2}(?:[.,]\d{3})*,\d{3}|[1-9]\d{0,2}\.\d{3}", re.ASCII)
# A number with this decimal mark: it has other than three digits, a zero alone before it, or the other mark for
# thousands.
_IS_DECIMAL = {
    mark: re.compile(rf"\d*\{mark}(?!\d{{3}}$)\d+|0?\{mark}\d+|\d{{1,3}}(?:\{other}\d{{3}})+\{mark}\d+", re.ASCII)
    for mark, other in ((".", ","), (",", "."))
}
SEPARATOR_LINE = re.compile(r"\s*\"?sep=(.?)\"?\s*", re.IGNORECASE)  # the first line of a file for Excel


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


def decimal_mark(cells: Iterable[str], *, has_plain_decimals: bool) -> str:
    """The decimal mark that the numbers of a table prove, or its separator suggests; "" if neither does."""
    numbers = [_bare(cell) for cell in cells]
    proven = {mark for mark in ".," if any(map(_IS_DECIMAL[mark].fullmatch, numbers))}
    if len(proven) == 1:
        return proven.pop()
    return "." if has_plain_decimals and not proven else ""


def _bare(cell: str) -> str:
    return cell.strip().removesuffix("%").rstrip()


def without_thousands(number: str, mark: str, *, is_percent: bool = False) -> str:
    """A number with a decimal point and without marks of thousands; raise ValueError if it may be two numbers.

    mark: the decimal mark of its table; "" if that isn't known.
    """
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


class SeparatedTable:
    """Rows of a text by column, with any separator and any order of columns.

    columns: the known ones, the first of which a table must have. other_names: further names of columns. Raises Invalid
    for a first line that names others.
    """

    def __init__(self, text: str, *, columns: Sequence[str], other_names: Mapping[str, str]) -> None:
        lines = (line for line in text.split("\n") if line.strip())
        first = next(lines, "")
        named = SEPARATOR_LINE.fullmatch(first)
        header = next(lines, "") if named else first
        counts = {mark: header.count(mark) for mark in ",;\t"}
        self._mark = (named and named[1]) or max(counts, key=lambda mark: counts[mark])
        self._reader = csv.reader(io.StringIO(text, newline=""), delimiter=self._mark, strict=True)
        if named:
            next(self._lines())
        names = [name.strip().lower() for name in next(self._lines(), [])]
        self.columns = [other_names.get(name, name) for name in names]
        if columns[0] not in self.columns:
            problem = f"its first line names no column {columns[0]}; known are {', '.join(columns)}"
            raise wrong_format("CSV table", 1, problem)
        unknown = [name for name in self.columns if name not in columns]
        if unknown or len(set(self.columns)) != len(self.columns):
            problem = f"{unknown[0]!r:.40} is unknown" if unknown else "a column is repeated"
            raise invalid_line(1, f"{problem}; known are {', '.join(columns)}")

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

    def __iter__(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield the number of each line, and its cells by column."""
        for cells in self._lines():
            line = self._reader.line_num
            if len(cells) > len(self.columns) and any(cells[len(self.columns) :]):
                problem = f"has {len(cells)} cells, the first line {len(self.columns)}"
                raise invalid_line(line, f"{problem}; put cells with {self._mark} in quotes")
            yield line, dict(zip(self.columns, [*cells, *[""] * len(self.columns)], strict=False))
