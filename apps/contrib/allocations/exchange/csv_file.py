"""Allocations as a table: entry, unit, amount, first and last day, reason and uid; any order, any separator."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from apps.contrib.allocations.exchange.lines import (
    FIELDS,
    MOST_ALLOCATION_LINES,
    AllocationFile,
    LineReader,
    stated_amount,
)
from apps.core.errors import TooLarge
from apps.policies.files.document import plain_number
from apps.policies.formats.separated_table import (
    SeparatedTable,
    decimal_mark,
    escape_formula,
    unescape_formula,
    without_thousands,
)
from apps.policies.models import Allocation

_OTHER_NAMES = {"path": "entry", "from": "starts_on", "to": "ends_on", "hours": "amount"}
_NUMBER = re.compile(r"-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_TEXTS = ("entry", "unit", "reason", "uid")


def read(text: str) -> AllocationFile:
    """Read a table. Its first line names the columns; unit, reason and uid may be left out.

    Raises:
        Invalid: the text is no such table.
        TooLarge: it has more than MOST_ALLOCATION_LINES lines.
    """
    if text.count("\n") > 2 * MOST_ALLOCATION_LINES:
        raise TooLarge(f"A file has at most {MOST_ALLOCATION_LINES:,} allocations: split it.")
    table = SeparatedTable(text, columns=FIELDS, other_names=_OTHER_NAMES)
    rows = [(line, cells) for line, cells in table if any(cells.values())]
    if len(rows) > MOST_ALLOCATION_LINES:
        raise TooLarge(f"A file has at most {MOST_ALLOCATION_LINES:,} allocations: split it.")
    amounts = (cells.get("amount", "") for _, cells in rows)
    mark = decimal_mark(amounts, has_plain_decimals=table.has_plain_decimals)
    reader = LineReader(lambda cell: _amount(str(cell or ""), mark))
    for line, cells in rows:
        _read_row(reader, f"line {line}", cells)
    return reader.finish()


def _read_row(reader: LineReader, place: str, cells: dict[str, str]) -> None:
    values: dict[str, Any] = dict(cells)
    for name in _TEXTS:
        try:
            values[name] = unescape_formula(cells.get(name, "").strip())
        except ValueError as error:
            reader.problem(place, name, str(error))
            return
    reader.add(place, values)


def _amount(cell: str, mark: str) -> float:
    text = cell.strip()
    if not text:
        raise ValueError("is empty: write a number of hours")
    number = without_thousands(text.replace("\u202f", "").replace("\u00a0", ""), mark)
    if not _NUMBER.fullmatch(number):
        raise ValueError(f"{text[:40]!r} is no number of hours, such as 250000")
    return float(number)


def write(rows: Iterable[tuple[Allocation, str]]) -> Iterator[str]:
    """Yield the lines of a table of allocations, each with the path of its entry; `read` returns the same ones."""
    yield ",".join(FIELDS) + "\r\n"
    for row, path in rows:
        amount = json.dumps(plain_number(stated_amount(row)))
        cells = [_quoted(path), _quoted(row.unit), amount, str(row.starts_on), str(row.ends_on), _quoted(row.reason)]
        yield ",".join([*cells, str(row.uid)]) + "\r\n"


def _quoted(text: str) -> str:
    return '"' + escape_formula(text).replace('"', '""') + '"' if text else ""
