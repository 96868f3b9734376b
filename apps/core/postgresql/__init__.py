"""Django's PostgreSQL backend with callbacks before and after the end of a transaction, and prepared statements."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count
from typing import Any, cast
from weakref import WeakKeyDictionary

from django.db import DEFAULT_DB_ALIAS, DatabaseError, connection, connections, transaction

from apps.core.postgresql.base import IN_EACH_TRANSACTION, DatabaseWrapper

# PostgreSQL's deadlock, serialization failure, lock timeout and statement timeout: the server is there, but busy
_REPEATABLE = frozenset({"40P01", "40001", "55P03"})
_BUSY = _REPEATABLE | {"57014"}
_UNEXPECTED = 4  # times as many rows as expected: from here on a nested loop costs more than to sample the table
# Of a partitioned table, each partition; and the whole, whose statistics nothing else renews, by its number of rows.
_GROWN = """
WITH part AS (
    SELECT pg_class.*, tree.isleaf, asked FROM unnest(%s::regclass[]) AS asked
    CROSS JOIN LATERAL (SELECT asked AS relid, true AS isleaf WHERE NOT EXISTS (SELECT FROM pg_partition_tree(asked))
        UNION ALL SELECT relid, isleaf FROM pg_partition_tree(asked)) AS tree
    JOIN pg_class ON pg_class.oid = tree.relid),
grown AS (
    SELECT * FROM part
    WHERE isleaf AND pg_relation_size(oid) / current_setting('block_size')::int > 2 * relpages + 100)
SELECT relname FROM grown
UNION ALL SELECT relname FROM part AS whole
WHERE NOT isleaf AND EXISTS (SELECT FROM grown WHERE asked = whole.asked) AND 2 * GREATEST(reltuples, 0) <= (
    SELECT sum(GREATEST(reltuples, 0)) FROM part WHERE isleaf AND asked = whole.asked)
"""

# An expression: the running server with its database. It changes when the server is started anew, and with another
# server. Only then can transactions that were read be lost, at a failover or a recovery, and their numbers be used
# again: what is kept by such numbers is kept by the epoch, too.
SERVER_EPOCH = (
    "(SELECT oid || ' since ' || extract(epoch FROM pg_postmaster_start_time())"
    " FROM pg_database WHERE datname = current_database())"
)


def after_transaction(call: Callable[[], object]) -> None:
    """Call when the outermost transaction of this thread has been committed or rolled back; immediately without one.

    `transaction.on_commit` forgets its callbacks at a rollback. Exceptions of `call` are logged, because no caller
    waits for it.
    """
    cast(DatabaseWrapper, connection).after_transaction(call)


def as_last_step(call: Callable[[], object]) -> None:
    """Call at the end of the transaction that is open, before its commit. Not if it, or its savepoint, is rolled back.

    What it raises rolls the transaction back.
    """
    cast(DatabaseWrapper, connection).as_last_step(call)


def join_transaction() -> AbstractContextManager[object]:
    """The transaction that is open, or a new one.

    Unlike `atomic`, it sets no savepoint in an open one: for steps whose failure ends all of it.
    """
    return nullcontext() if cast(DatabaseWrapper, connection).is_in_transaction() else transaction.atomic()


def is_busy(error: BaseException | None) -> bool:
    """Whether the database gave up on a transaction because of others, or of a time limit. It is not down."""
    return _sqlstate(error) in _BUSY


def may_repeat(error: BaseException | None) -> bool:
    """Whether the same transaction may succeed at once, as after a deadlock."""
    return _sqlstate(error) in _REPEATABLE


def _sqlstate(error: BaseException | None) -> str:
    return str(getattr(error, "sqlstate", None) or getattr(getattr(error, "__cause__", None), "sqlstate", None) or "")


def bound_statements(longest_s: float) -> None:
    """Let the server end any statement of this process's later connections after this time: no plan runs for ever.

    Behind a pooler, any statement of a transaction.
    """
    _bound(connections.settings[DEFAULT_DB_ALIAS], longest_s)


def bound_statements_of_thread(longest_s: float) -> None:
    """Let the server end statements after this time, for later connections of this thread alone."""
    wrapper = cast(DatabaseWrapper, connections[DEFAULT_DB_ALIAS])
    wrapper.settings_dict = copy.deepcopy(wrapper.settings_dict)
    _bound(wrapper.settings_dict, longest_s)


def _bound(settings: dict[str, Any], longest_s: float) -> None:
    longest_ms = int(longest_s * 1000)
    if IN_EACH_TRANSACTION in settings:
        settings[IN_EACH_TRANSACTION]["statement_timeout"] = f"{longest_ms}ms"
    else:
        settings["OPTIONS"]["options"] += f" -c statement_timeout={longest_ms}"


def analyze_grown(*tables: str) -> None:
    """Renew the planner's statistics of tables that have doubled since it took the last ones, or never has.

    Call it after a bulk load: until autovacuum comes, the server would plan for the former size, as a nested loop over
    hundreds of thousands of rows.
    """
    with connection.cursor() as cursor:
        for table in list_grown(*tables):
            cursor.execute(f'ANALYZE "{table}"')


def list_grown(*tables: str) -> list[str]:
    """Tables and partitions that have doubled since the planner's statistics were taken, or that never had any."""
    with connection.cursor() as cursor:
        cursor.execute(_GROWN, [list(tables)])
        return [table for (table,) in cursor.fetchall()]


def analyze_unexpected(table: str, column: str, value: int, n_rows: int) -> None:
    """Renew the planner's statistics of a table if it expects far fewer rows with this value than were just written.

    Call it after a bulk load for a new owner beside much larger ones: the table has hardly grown then, and the server
    would plan for a single row.
    """
    with connection.cursor() as cursor:
        cursor.execute(f'EXPLAIN (FORMAT JSON) SELECT 1 FROM "{table}" WHERE "{column}" = %s', [value])  # noqa: S608 - names from code
        (plans,) = cursor.fetchone()
        plan = (json.loads(plans) if isinstance(plans, str) else plans)[0]["Plan"]
        if _UNEXPECTED * int(plan["Plan Rows"]) < n_rows:
            cursor.execute(f'ANALYZE "{table}"')


@contextmanager
def consistent_read() -> Iterator[bool]:
    """A read-only transaction in which all queries see one state of the database.

    Yields False inside another transaction, which may have written something itself: results must not be cached.
    """
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield is_outermost


def n_commits() -> int:
    """Number of transactions that this thread's connection has committed."""
    return cast(DatabaseWrapper, connection).n_commits


# by connection, because a pool may give this thread another one
_prepared: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()
_attempts = count(1)


def fetch_prepared(name: str, statement: str, params: Sequence[Any]) -> tuple[Any, ...] | None:
    """The first row of a frequent statement, which is parsed and planned once a connection; behind a pooler, each time.

    statement: with $1, $2, … for `params`. name: of the statement, for PostgreSQL's views. Raises DatabaseError; the
    next call prepares it again, as is necessary after a migration of its tables.
    """
    with connection.cursor() as cursor:
        if IN_EACH_TRANSACTION in connection.settings_dict:
            named = {f"p{number}": value for number, value in enumerate(params, 1)}
            cursor.execute(re.sub(r"\$(\d+)", r"%(p\1)s", statement.replace("%", "%%")), named)
            plain: tuple[Any, ...] | None = cursor.fetchone()
            return plain
        names = _prepared.setdefault(connection.connection, {})
        if name not in names:
            fresh = f"{name}_{next(_attempts)}"  # a new name, because a failed transaction can't deallocate the old one
            cursor.execute(f"PREPARE {fresh} AS {statement}")
            names[name] = fresh
        try:
            cursor.execute(f"EXECUTE {names[name]} ({', '.join(['%s'] * len(params))})", params)
        except DatabaseError:
            del names[name]
            raise
        row: tuple[Any, ...] | None = cursor.fetchone()
    return row
