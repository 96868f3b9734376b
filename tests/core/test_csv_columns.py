"""Lines written by columns are those of `csv.writer`, whose rows have their formulas escaped."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from hypothesis import example, given
from hypothesis import strategies as st

from apps.core.csv_columns import csv_lines
from apps.core.tables import escape_formula
from tests.examples import examples

_TEXTS = st.text("ab1/=+-@\"\n\r\t,'é\u200b=\u3000", max_size=6) | st.sampled_from(["", "/physics/alice", "=1", "\n-1"])
_FLOATS = st.floats() | st.sampled_from([0.0, -0.0, 1e16, 123456789012345680.0, 1e-4, 9.9999e-5, 1e-5, 2.5e-9, 5e-324])
_NUMBERS = _FLOATS | st.integers(-(2**53), 2**53)
_OTHERS = st.booleans() | st.uuids() | st.datetimes(timezones=st.just(UTC))
_CELLS = st.sampled_from(
    [_TEXTS, _NUMBERS, _FLOATS, st.none() | _NUMBERS, st.none() | _TEXTS, st.none(), _NUMBERS | _TEXTS | _OTHERS]
)


@st.composite
def _columns(draw: st.DrawFn) -> list[list[Any]]:
    n = draw(st.integers(1, 6))
    kinds = draw(st.lists(_CELLS, min_size=1, max_size=4))
    return [draw(st.lists(kind, min_size=n, max_size=n)) for kind in kinds]


@examples(500)
@given(_columns())
@example([["/a", "/b"], [0.1, 2e-5], [1, None], [None, None]])
@example([["x", "\n=1"], [float("inf"), float("nan")]])
@example([['/a"b"', "/c"]])
@example([[True, 1.5], [UUID(int=1), datetime(2026, 11, 30, tzinfo=UTC)]])
def test_lines_by_columns_are_those_of_rows(columns: list[list[Any]]) -> None:
    expected = io.StringIO(newline="")
    rows = zip(*columns, strict=True)
    cells = ([escape_formula(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    csv.writer(expected, quoting=csv.QUOTE_NONNUMERIC).writerows(cells)
    assert csv_lines(columns) == expected.getvalue()
