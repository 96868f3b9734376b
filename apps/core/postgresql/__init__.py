"""Django's PostgreSQL backend with callbacks after a transaction, however it ends, and with prepared statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, cast
from weakref import WeakKeyDictionary

from django.db import DatabaseError, connection

from apps.core.postgresql.base import DatabaseWrapper


def after_transaction(call: Callable[[], object]) -> None:
    """Call when the outermost transaction of this thread has been committed or rolled back; immediately without one.

    `transaction.on_commit` forgets its callbacks at a rollback. Exceptions of `call` are logged, because no caller
    waits for it.
    """
    cast(DatabaseWrapper, connection).after_transaction(call)


# by connection, because a pool may give this thread another one
_prepared: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()
_attempts = count(1)


def fetch_prepared(name: str, statement: str, params: Sequence[Any]) -> tuple[Any, ...] | None:
    """The first row of a frequent statement, which is parsed and planned once a connection.

    statement: with $1, $2, … for `params`. name: of the statement, for PostgreSQL's views. Raises DatabaseError, also
    if a connection pooler sends each statement to another connection; the next call prepares it again, as is necessary
    after a migration of its tables.
    """
    with connection.cursor() as cursor:
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
