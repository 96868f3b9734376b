"""Reset of a copied database to the rows of its source: cheaper than a new copy, for most tests change few rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import sql

Connection = psycopg.Connection[tuple[Any, ...]]
_MOST_ROWS = 20_000  # deleting more takes longer than a new copy
# PostgreSQL counts changed rows, also of rolled-back transactions. TRUNCATE gives a table another file.
_TABLES = """
SELECT c.oid::bigint, c.oid::regclass::text, c.relfilenode::bigint,
    COALESCE(s.n_tup_ins + s.n_tup_upd + s.n_tup_del, 0)
FROM pg_class c LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
"""
_SCHEMA = """
SELECT oid::bigint, concat_ws(' ', relname, relkind, relnatts) FROM pg_class
WHERE relnamespace = 'public'::regnamespace
UNION ALL SELECT oid::bigint, concat_ws(' ', tgname, tgenabled) FROM pg_trigger
UNION ALL SELECT oid::bigint, concat_ws(' ', conname, convalidated) FROM pg_constraint
ORDER BY 1, 2
"""
# Records make the partition of their month.
_PARTITIONS = """
SELECT inhrelid::bigint, inhrelid::regclass::text FROM pg_inherits JOIN pg_class ON oid = inhrelid WHERE relkind = 'r'
"""
_COLUMNS = """
SELECT attname FROM pg_attribute
WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum
"""


def may_reset(connection: Connection) -> bool:
    """Whether the user is a superuser; that of a given DATABASE_URL may not be."""
    return connection.execute("SELECT usesuper FROM pg_user WHERE usename = current_user").fetchone() == (True,)


class Baseline:
    """Schema and rows of a database before tests change it. Rows of a table are read once a test has changed it."""

    def __init__(self, copied: Connection) -> None:
        self._schema = copied.execute(_SCHEMA).fetchall()
        self._files = {oid: file for oid, _, file, _ in copied.execute(_TABLES)}
        self._partitions = {oid for oid, _ in copied.execute(_PARTITIONS)}
        self._rows: dict[str, tuple[sql.Composed, bytes]] = {}

    def restore(self, copied: Connection, connect_to_source: Callable[[], Connection]) -> bool:
        """Copy the rows of the source back. False if a new copy is needed: another schema, or too many changed rows."""
        for oid, partition in copied.execute(_PARTITIONS).fetchall():
            if oid not in self._partitions:
                copied.execute(sql.SQL("DROP TABLE {}").format(sql.SQL(str(partition))))
        if copied.execute(_SCHEMA).fetchall() != self._schema:
            return False
        tables = copied.execute(_TABLES).fetchall()
        if sum(n_rows for *_, n_rows in tables) > _MOST_ROWS:
            return False
        changed = [name for oid, name, file, n_rows in tables if n_rows or file != self._files[oid]]
        with copied.transaction():
            copied.execute("SET LOCAL session_replication_role = replica")  # without triggers
            for name in changed:
                self._restore_table(copied, connect_to_source, name)
        self._files = {oid: file for oid, _, file, _ in tables}
        return True

    def _restore_table(self, copied: Connection, connect_to_source: Callable[[], Connection], name: str) -> None:
        if name not in self._rows:
            with connect_to_source() as source:
                columns = sql.SQL(", ").join(sql.Identifier(column) for (column,) in source.execute(_COLUMNS, [name]))
                table = sql.SQL("{} ({})").format(sql.SQL(name), columns)
                with source.cursor().copy(sql.SQL("COPY {} TO STDOUT").format(table)) as rows:
                    self._rows[name] = table, b"".join(rows)
        table, data = self._rows[name]
        copied.execute(sql.SQL("DELETE FROM {}").format(sql.SQL(name)))
        with copied.cursor().copy(sql.SQL("COPY {} FROM STDIN").format(table)) as rows:
            rows.write(data)
