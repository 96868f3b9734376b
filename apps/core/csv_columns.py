"""Lines of a CSV file written by columns: the same as `csv.writer` makes of rows whose formulas are escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, SupportsInt

import orjson

from apps.core.tables import NO_TRIGGERS, escape_formula

_PLAIN_BEGIN = re.escape("".join(sorted(NO_TRIGGERS)))
_HAS_SPECIAL = re.compile(rf'"|(?:^|\n)(?![{_PLAIN_BEGIN}])')  # a quote, or what may be a formula, of cells by line


def csv_lines(columns: Sequence[Sequence[Any]]) -> str:
    """A line for each row. Text is in quotes, numbers aren't, and None is an empty text."""
    return "".join([f"{line}\r\n" for line in map(",".join, zip(*map(_cells, columns), strict=True))])


def _cells(column: Sequence[Any]) -> Sequence[str]:
    kinds = set(map(type, column))
    if kinds == {str}:
        return _texts(column)
    if kinds <= {float, int, type(None)}:
        return _numbers(column)
    return [_cell(value) for value in column]


def _texts(column: Sequence[str]) -> list[str]:
    if _HAS_SPECIAL.search("\n".join(column)):
        return [*map(_cell, column)]
    return [f'"{text}"' for text in column]


def _numbers(column: Sequence[float | None]) -> list[str]:
    """As Python writes them, which is what JSON has but for exponents, infinity and NaN."""
    text = orjson.dumps(column).decode()
    cells = text[1:-1].split(",")
    if "null" in text or "e" in text or "0.0000" in text:
        pairs = zip(cells, column, strict=True)
        return [_cell(value) if "n" in cell or "e" in cell or "0.0000" in cell else cell for cell, value in pairs]
    return cells


def _cell(value: Any) -> str:
    if isinstance(value, SupportsInt):
        return str(value)
    text = escape_formula(value) if isinstance(value, str) else str("" if value is None else value)
    return '"' + text.replace('"', '""') + '"'
