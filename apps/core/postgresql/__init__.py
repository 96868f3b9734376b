"""Django's PostgreSQL backend, which also calls what waits for the end of a transaction, however it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from django.db import connection

from apps.core.postgresql.base import DatabaseWrapper


def after_transaction(call: Callable[[], object]) -> None:
    """Call when the outermost transaction of this thread has been committed or rolled back; without one, now.

    `transaction.on_commit` forgets its calls at a rollback. What `call` raises is logged: nobody waits for it.
    """
    cast(DatabaseWrapper, connection).after_transaction(call)
