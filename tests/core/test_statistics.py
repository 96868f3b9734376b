"""The planner's statistics follow bulk loads."""

from __future__ import annotations

import pytest
from django.db import connection

from apps.core.postgresql import analyze_grown

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
