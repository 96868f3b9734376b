"""Columns in PostgreSQL's binary form."""

from __future__ import annotations

from uuid import UUID

import numpy as np
import pytest
from django.db import transaction

from apps.usage import pgbinary
from apps.usage.parsers.base import NO_TIME

pytestmark = pytest.mark.django_db

_TABLE = """
CREATE TEMP TABLE written (yes bool, small int4, whole int8, nothing int4, amount float8, share float8, rate float8,
    version int8, at timestamptz, name text, empty text, uid uuid) ON COMMIT DROP
"""
_READ = """
SELECT yes, small, whole, nothing, amount, share, rate, version, (extract(epoch FROM at) * 1000000)::int8, name, empty,
    uid
FROM written ORDER BY whole
"""


@pytest.mark.parametrize("times", [1, 5])  # as psycopg writes a few rows, and as whole columns
def test_columns_arrive_as_they_were_written(times: int) -> None:
    uids = [UUID(int=1), UUID(int=2**128 - 1), UUID(int=3)]
    columns = [
        pgbinary.boolean(np.array([True, False, True])),
        pgbinary.int4(np.array([1, -2, 3])),
        pgbinary.int8(np.array([10, 20, 2**62])),
        pgbinary.int4_unless_zero(np.array([0, 0, 0])),
        pgbinary.float8(np.array([0.5, -1.25, 1e300])),
        pgbinary.float8_unless_nan(np.array([np.nan, 2.0, np.nan])),
        pgbinary.float8_unless_zero(np.array([0.0, -0.0, 1.5])),
        pgbinary.int8_unless_zero(np.array([0, 2**62, -1])),
        pgbinary.timestamptz(np.array([0, NO_TIME, 1_763_640_000_000_001])),
        pgbinary.text(np.array(["ä".encode(), b"", b"longer"])),
        pgbinary.text(np.zeros(3, "S1")),
        pgbinary.uuid(np.frombuffer(b"".join(uid.bytes for uid in uids), np.uint8).reshape(3, 16)),
    ]
    with pgbinary.cursor() as cursor:
        cursor.execute(_TABLE)
    assert (3 * times > pgbinary._FEW) == (times > 1)
    again = np.tile(np.arange(3), times)
    pgbinary.copy_in("COPY written FROM STDIN (FORMAT BINARY)", [column.take(again) for column in columns])
    with pgbinary.cursor() as cursor:
        rows = cursor.execute(_READ).fetchall()
    assert rows[::times] == [
        (True, 1, 10, None, 0.5, None, None, None, 0, "ä", "", uids[0]),
        (False, -2, 20, None, -1.25, 2.0, None, 2**62, None, "", "", uids[1]),
        (True, 3, 2**62, None, 1e300, None, 1.5, -1, 1_763_640_000_000_001, "longer", "", uids[2]),
    ]
    assert rows == [row for row in rows[::times] for _ in range(times)]


@pytest.mark.parametrize("n", [1, 1_000])
@pytest.mark.parametrize("number", [2**31, -(2**31) - 1])
def test_a_number_too_large_for_its_column_is_refused_and_not_cut(n: int, number: int) -> None:
    with pgbinary.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE small (n int4) ON COMMIT DROP")
    with pytest.raises(OverflowError, match="4 bytes"), transaction.atomic():
        pgbinary.copy_in("COPY small FROM STDIN (FORMAT BINARY)", [pgbinary.int4(np.full(n, number))])


@pytest.mark.parametrize("n", [0, 1, pgbinary._FEW, pgbinary._FEW + 1, 1_000])
def test_arrays_arrive_as_they_were_sent(n: int) -> None:
    numbers, names = np.arange(n) - 3, np.array([b"x" * (i % 7) for i in range(n)], "S7")
    times = np.where(numbers % 2 == 0, NO_TIME, numbers)
    arrays = [pgbinary.int8_array(numbers), pgbinary.float8_array(numbers / 4), pgbinary.text_array(names)]
    with pgbinary.cursor() as cursor:
        row = cursor.execute(
            "SELECT %s::int8[], %s::float8[], %s::text[], cardinality(array_remove(%s::timestamptz[], NULL))",
            [*arrays, pgbinary.timestamptz_array(times)],
        ).fetchone()
    assert row is not None
    assert row[0] == numbers.tolist()
    assert row[1] == (numbers / 4).tolist()
    assert row[2] == [name.decode() for name in names.tolist()]
    assert row[3] == int((times != NO_TIME).sum())
