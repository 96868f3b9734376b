"""The planner's statistics follow bulk loads."""

from __future__ import annotations

import pytest
from django.db import connection

from apps.core.postgresql import analyze_grown, analyze_unexpected

pytestmark = pytest.mark.django_db


def known_rows() -> float:
    with connection.cursor() as cursor:
        cursor.execute("SELECT reltuples FROM pg_class WHERE relname = 'grown'")
        return float(cursor.fetchone()[0])


def test_a_table_is_analysed_when_it_has_doubled() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE grown (id bigint, note text)")

        def load(n: int) -> float:
            cursor.execute("INSERT INTO grown SELECT n, repeat('x', 100) FROM generate_series(1, %s) AS n", [n])
            analyze_grown("grown", "accounts_account")
            return known_rows()

        assert load(100) == -1, "small tables are left to autovacuum"
        assert load(20_000) == pytest.approx(20_100, rel=0.01)
        assert load(1_000) == pytest.approx(20_100, rel=0.01), "not again for a few more"
        assert load(40_000) == pytest.approx(61_100, rel=0.01)


def test_a_table_is_analysed_for_a_new_owner_beside_a_much_larger_one() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE owned (owner bigint, note text)")

        def load(owner: int, n: int) -> None:
            cursor.execute("INSERT INTO owned SELECT %s, repeat('x', 100) FROM generate_series(1, %s)", [owner, n])

        def expected_rows(owner: int) -> float:
            cursor.execute("EXPLAIN (FORMAT JSON) SELECT 1 FROM owned WHERE owner = %s", [owner])
            return float(cursor.fetchone()[0][0]["Plan"]["Plan Rows"])

        load(1, 60_000)
        analyze_grown("owned")
        load(2, 4_000)
        analyze_grown("owned")
        assert expected_rows(2) == 1, "the table has hardly grown"
        analyze_unexpected("owned", "owner", 2, 4_000)
        assert expected_rows(2) == pytest.approx(4_000, rel=0.3)
        load(2, 4_000)
        analyze_unexpected("owned", "owner", 2, 4_000)
        assert expected_rows(2) == pytest.approx(4_000, rel=0.3), "not again for as many as are expected"
