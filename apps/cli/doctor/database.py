"""Checks of the PostgreSQL server: what makes it slow or stops it, and the replica."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection

from apps.cli.doctor.check import Finding
from apps.core.postgresql import list_grown
from apps.core.postgresql.replica import has_replica, measured_replica
from apps.series.storage_growth import shown_size

_LEAST_DEAD_ROWS = 10_000
_CONNECTIONS_PART = 0.9
_LONGEST_STATEMENT = 100  # characters that are shown
_WRAPAROUND = 1_500_000_000  # transactions; PostgreSQL stops at 2.1 thousand million

_TABLES = """
SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition
    AND relnamespace = current_schema()::regnamespace ORDER BY relname
"""
# Twice as many dead rows as start autovacuum, which thus doesn't keep up.
_BLOATED = """
SELECT relname, n_dead_tup, n_live_tup FROM pg_stat_user_tables
WHERE schemaname = current_schema() AND n_dead_tup > greatest(%s, 2 * (
    current_setting('autovacuum_vacuum_threshold')::float8
    + current_setting('autovacuum_vacuum_scale_factor')::float8 * n_live_tup))
ORDER BY n_dead_tup DESC LIMIT 5
"""
# pg_dump reads for as long as a backup takes.
_LONG = """
SELECT pid, application_name, state, extract(epoch FROM clock_timestamp() - xact_start)::float8 FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
    AND application_name <> 'pg_dump' AND xact_start < clock_timestamp() - make_interval(secs => %s)
ORDER BY xact_start LIMIT 5
"""
_INVALID = """
SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE NOT indisvalid AND relnamespace = current_schema()::regnamespace ORDER BY 1
"""
_CONNECTIONS = """
SELECT count(*), least(current_setting('max_connections')::int
    - current_setting('superuser_reserved_connections')::int,
    (SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database()))
FROM pg_stat_activity WHERE backend_type = 'client backend'
"""
_AGE = """
SELECT age(datfrozenxid), current_setting('autovacuum_freeze_max_age')::int8
FROM pg_database WHERE datname = current_database()
"""
# Constants of these are replaced by $1; those of other statements, as a password of ALTER ROLE, are not.
_SLOW = """
SELECT query, calls, mean_exec_time, max_exec_time FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND query ~* '^\\s*(select|insert|update|delete|with|merge)\\M'
ORDER BY mean_exec_time DESC LIMIT 3
"""


def check_database(at: datetime) -> Iterator[str | Finding]:
    begun_s = time.monotonic()
    ((size, autovacuum),) = _rows("SELECT pg_database_size(current_database()), current_setting('autovacuum')")
    yield f"{shown_size(size)}, answers in {1000 * (time.monotonic() - begun_s):.1f} ms"
    if autovacuum != "on":
        remedy = "Set `autovacuum = on` in postgresql.conf, and reload the server."
        yield Finding("autovacuum_off", "bad", "Autovacuum is off: tables grow and plans grow old.", remedy)
    yield from _tables()
    yield from _sessions()
    yield from _age()
    yield from _slow_statements()
    yield from _replica()


def _tables() -> Iterator[Finding]:
    for table, dead, live in _rows(_BLOATED, [_LEAST_DEAD_ROWS]):
        message = f"The table {table} has {dead:,} dead rows beside {live:,} live ones: autovacuum doesn't keep up."
        remedy = f"Run `VACUUM (ANALYZE) {table};` in the database. Long transactions keep dead rows."
        yield Finding("bloated_table", "warn", message, remedy)
    for table in list_grown(*(table for (table,) in _rows(_TABLES))):
        message = f"The planner's statistics of {table} are missing, or the table has doubled since."
        yield Finding("missing_statistics", "warn", message, f"Run `ANALYZE {table};` in the database.")
    for (index,) in _rows(_INVALID):
        message = f"The index {index} is invalid: its making was interrupted, and no query uses it."
        yield Finding("invalid_index", "warn", message, f"Run `REINDEX INDEX CONCURRENTLY {index};` in the database.")


def _sessions() -> Iterator[Finding | str]:
    for pid, application, state, age_s in _rows(_LONG, [settings.FAIRSHARE_STALL_S]):
        session = f"Session {pid} ({application})" if application else f"Session {pid}"
        message = f"{session} has had a transaction open for {age_s / 60:,.0f} min ({state}): dead rows stay."
        remedy = f"End the program, or run `SELECT pg_terminate_backend({pid});` in the database."
        yield Finding("long_transaction", "warn", message, remedy)
    ((used, most),) = _rows(_CONNECTIONS)
    yield f"{used} of {most} connections used"
    if used >= _CONNECTIONS_PART * most:
        message = f"{used} of {most} connections of the database are used: new ones are soon refused."
        remedy = "Raise `max_connections`, or put PgBouncer before it: see PgBouncer in docs/operate.md."
        yield Finding("connections_short", "warn", message, remedy)


def _age() -> Iterator[Finding]:
    ((age, forced),) = _rows(_AGE)
    if age > min(2 * forced, _WRAPAROUND):
        message = f"The oldest transaction is {age:,} transactions old: PostgreSQL stops before 2,147,483,648."
        remedy = "End long transactions, then run `VACUUM (FREEZE);` in the database."
        yield Finding("wraparound", "bad" if age > _WRAPAROUND else "warn", message, remedy)


def _slow_statements() -> Iterator[str | Finding]:
    if not _rows("SELECT 1 FROM pg_extension WHERE extname = 'pg_stat_statements'"):
        yield "slow statements are unknown: the extension pg_stat_statements isn't there"
        return
    try:
        rows = _rows(_SLOW)
    except DatabaseError as error:
        yield f"slow statements are unknown: {str(error).strip().splitlines()[0]}"
        return
    longest_ms = 1000 * settings.FAIRSHARE_STATEMENT_S / 2
    for query, calls, mean_ms, max_ms in rows:
        text = " ".join(query.split())[:_LONGEST_STATEMENT]
        yield f"slow: {mean_ms:,.0f} ms on average, {calls:,} times: {text}"
        if max_ms > longest_ms:
            message = f"A statement took {max_ms / 1000:,.1f} s, over half of FAIRSHARE_STATEMENT_S: {text}"
            remedy = "Run `ANALYZE;` in the database. If it stays, raise FAIRSHARE_STATEMENT_S: docs/settings.md."
            yield Finding("slow_statement", "warn", message, remedy)


def _replica() -> Iterator[str | Finding]:
    if not has_replica():
        return
    state = measured_replica()
    lag_s, refusal = state.lag_s(time.monotonic()), state.refusal(time.monotonic())
    yield "replica: " + ("lag unknown" if lag_s is None else f"{lag_s:.1f} s behind at most")
    if refusal:
        remedy = "The primary is read meanwhile: see Read replica in docs/operate.md."
        yield Finding("replica_unused", "warn", f"The replica {refusal}.", remedy)


def _rows(statement: str, params: list[Any] | None = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return list(cursor.fetchall())
