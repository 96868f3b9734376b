"""Django's PostgreSQL backend, which also calls what waits for the end of a transaction, however it ends; and
statements that PostgreSQL plans once a connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, cast
from weakref import WeakKeyDictionary

from django.db import DatabaseError, connection

from apps.core.postgresql.base import DatabaseWrapper


def after_transaction(call: Callable[[], object]) -> None:
    """Call when the outermost transaction of this thread has been committed or rolled back; without one, now.

    `transaction.on_commit` forgets its calls at a rollback. What `call` raises is logged: nobody waits for it.
    """
    cast(DatabaseWrapper, connection).after_transaction(call)


_prepared: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()  # by the connection, which a pool may hand on
_attempts = count(1)


def fetch_prepared(name: str, statement: str, params: Sequence[Any]) -> tuple[Any, ...] | None:
    """The first row of a statement that is asked often: it is parsed and planned once a connection.

    statement: with $1, $2, … for `params`. name: of the statement, for PostgreSQL's views. Raises DatabaseError, also
    where something between here and the database hands each statement to another connection; the next call prepares
    it anew, as a migration of its tables needs.
    """
    with connection.cursor() as cursor:
        names = _prepared.setdefault(connection.connection, {})
        if name not in names:
            fresh = f"{name}_{next(_attempts)}"  # a failed transaction can't forget the last one
            cursor.execute(f"PREPARE {fresh} AS {statement}")
            names[name] = fresh
        try:
            cursor.execute(f"EXECUTE {names[name]} ({', '.join(['%s'] * len(params))})", params)
        except DatabaseError:
            del names[name]
            raise
        row: tuple[Any, ...] | None = cursor.fetchone()
    return row
