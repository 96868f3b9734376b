"""Statements that PostgreSQL plans once a connection."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connection, transaction

from apps.core.postgresql import fetch_prepared

pytestmark = pytest.mark.django_db
ASKED = "SELECT * FROM thing WHERE id = $1"


def ask() -> tuple[object, ...] | None:
    return fetch_prepared("thing_of", ASKED, [1])


def test_a_statement_is_replanned_after_a_table_change() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE thing (id int)")
        cursor.execute("INSERT INTO thing VALUES (1)")
        assert ask() == (1,)
        assert ask() == (1,)
        cursor.execute("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'thing_of%%'", [])
        assert cursor.fetchone() == (1,)
        cursor.execute("ALTER TABLE thing ADD COLUMN name text DEFAULT 'one'")
        with pytest.raises(DatabaseError, match="cached plan"), transaction.atomic():
            ask()
        assert ask() == (1, "one")
