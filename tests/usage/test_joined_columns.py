"""Columns as joined bytes: against arrays of the same query."""

from __future__ import annotations

import pytest

from apps.usage import joined_columns
from apps.usage.pgbinary import fetch_columns

pytestmark = pytest.mark.django_db

_JOINED = {
    "small": joined_columns.JOINED_INT4.of("n::int4"),
    "whole": joined_columns.JOINED_INT8.of("-n * 1099511627776"),
    "amount": joined_columns.JOINED_FLOAT8.of("1 / n::float8"),
    "at": joined_columns.JOINED_TIMESTAMPTZ.of("'1999-12-31 23:59:59.5Z'::timestamptz + n * interval '1 hour'"),
}
_SOME_NUMBERS = "FROM generate_series(1, %s) AS n"


@pytest.mark.parametrize("n", [0, 1, 1_000])
def test_joined_columns_are_those_of_arrays(n: int) -> None:
    joined = joined_columns.fetch_joined(_JOINED, _SOME_NUMBERS, [n])
    expressions = ", ".join(f"array_agg({column.expression})" for column in _JOINED.values())
    arrays = fetch_columns(f"SELECT {expressions} {_SOME_NUMBERS}", [n]) or [[]] * len(_JOINED)
    assert [column.tolist() for column in joined.values()] == [list(array) for array in arrays]
    assert [column.dtype.str for column in joined.values()] == ["<i8", "<i8", "<f8", "<i8"]


def test_a_joined_column_with_nulls_is_refused() -> None:
    columns = _JOINED | {"some": joined_columns.JOINED_INT8.of("NULLIF(n, 2)::int8")}
    with pytest.raises(ValueError, match="A column has NULLs"):
        joined_columns.fetch_joined(columns, _SOME_NUMBERS, [3])
