"""A fresh database for a bench that fills one, beside those of others: a copy of what the migrations made."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

EMPTY = "bench_empty"
_numbers = itertools.count(1)


def keep_empty() -> None:
    """Copy the database as it is after its migrations, before any bench has written."""
    from django.db import connection

    name = connection.settings_dict["NAME"]
    connection.close()
    _create(EMPTY, template=name)


@contextmanager
def fresh_database() -> Iterator[None]:
    """Within the block, this process alone works on an empty database, without memory of the one before."""
    from django.db import connection

    before, name = connection.settings_dict["NAME"], f"bench_{next(_numbers)}"
    _create(name, template=EMPTY)
    _move_to(name)
    try:
        yield
    finally:
        _move_to(before)
        execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def without_autovacuum() -> Iterator[None]:
    """Within the block, the server writes only what it is asked for."""
    execute("ALTER SYSTEM SET autovacuum = off")
    execute("SELECT pg_reload_conf()")
    try:
        yield
    finally:
        execute("ALTER SYSTEM RESET autovacuum")
        execute("SELECT pg_reload_conf()")


def _create(name: str, *, template: str) -> None:
    execute(f"CREATE DATABASE {name} TEMPLATE {template}")


def _move_to(name: str) -> None:
    from django.db import connection

    from apps.accounts import account_index
    from apps.priorities.serving import store

    connection.close()
    connection.settings_dict["NAME"] = name
    account_index.forget()
    store.forget()


def execute(statement: str) -> None:
    import psycopg
    from django.db import connection

    parameters = connection.get_connection_params() | {"dbname": "postgres"}
    known = {name: parameters[name] for name in ("host", "port", "user", "password", "dbname") if name in parameters}
    with psycopg.connect(**known, autocommit=True) as database:
        database.execute(statement)
