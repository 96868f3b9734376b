"""A test that commits starts with the rows of its world, whatever the previous test changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import pytest_django
from django.db import connection
from psycopg import sql

from tests import world_fixtures
from tests.databases import Databases
from tests.instants import AT

Rows = dict[str, list[tuple[object, ...]]]


@pytest.fixture
def source(
    databases: Databases, django_db_blocker: pytest_django.DjangoDbBlocker, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    with django_db_blocker.unblock():
        yield databases.world("small_site", world_fixtures.MAKERS["small_site"]).database
        databases.use(databases.empty)


@pytest.fixture
def copies(databases: Databases, source: str) -> Iterator[list[str]]:
    """The copies of the test, the first one already made."""
    names = [databases.copy(source)]
    yield names
    for name in names:
        databases.drop(name)


def rows() -> Rows:
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
        found: Rows = {}
        for (table,) in cursor.fetchall():
            cursor.execute(sql.SQL("SELECT t::text FROM {} t ORDER BY 1").format(sql.Identifier(table)))
            found[table] = cursor.fetchall()
        cursor.execute("SELECT tgname, tgenabled FROM pg_trigger ORDER BY 1")
        found["triggers"] = cursor.fetchall()
        return found


CHANGES = {
    "inserts": "INSERT INTO auth_group (id, name) VALUES (1, 'x')",
    "updates": "UPDATE policies_policy SET name = 'x'",
    "deletes": "SET session_replication_role = replica; DELETE FROM policies_entry",
    "empties": "SET session_replication_role = replica; TRUNCATE usage_record, policies_entry CASCADE",
    "makes a table": "CREATE TABLE x (a int)",
    "adds a column": "ALTER TABLE usage_record ADD COLUMN x int",
    "disables a trigger": "ALTER TABLE accounts_auditevent DISABLE TRIGGER USER",
    "drops a column": "ALTER TABLE usage_record DROP COLUMN job",
    "changes many rows": "INSERT INTO auth_group (id, name) SELECT g, g FROM generate_series(1, 30000) g",
}


SLOW_CHANGES = ("updates", "empties", "makes a table", "adds a column", "disables a trigger")  # like others of the list


@pytest.mark.parametrize(
    "change", [pytest.param(name, marks=pytest.mark.deep if name in SLOW_CHANGES else ()) for name in CHANGES]
)
def test_a_reset_copy_has_the_rows_of_the_world(
    databases: Databases, source: str, copies: list[str], change: str
) -> None:
    before = rows()
    assert before["policies_entry"], "the world is empty"
    with connection.cursor() as cursor:
        cursor.execute(CHANGES[change])
    assert rows() != before
    databases.release_copy(copies[0], source)
    copies.append(databases.copy(source))
    assert rows() == before
    assert copies[0] != copies[1]
