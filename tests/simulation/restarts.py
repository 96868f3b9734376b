"""Ends of a process and of a database: kills at fault points, and the restore of an older database."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import psycopg
from django.db import connection, connections
from psycopg import sql

from apps.runs.leases import Lease
from apps.runs.models import Run
from apps.runs.services import work_lease
from tests.worlds import forget_process

_NOBODY_ELSE = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s"
# Of these fault points, those of recomputes, builds and ingests are passed again and again.
_MOST_PASSED = 12
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)  # leases go by the database's clock


class Killed(BaseException):
    """Stands for SIGKILL: no handler catches it, and the transaction is lost."""


@contextmanager
def killed_at_some_point(draw: random.Random, killed: list[str]) -> Iterator[None]:
    """The process is killed at one of the fault points that it passes, or at none, and begins again with files alone.

    killed: the name of the point is added to it.
    """
    left = [draw.randint(1, _MOST_PASSED)]

    def fault_point(name: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            killed.append(name)
            raise Killed

    modules = [module for name, module in list(sys.modules.items()) if name.startswith("apps.")]
    patched = [module for module in modules if "fault_point" in vars(module) and hasattr(module, "__file__")]
    with suppress(Killed):
        with _all_patched(patched, fault_point):
            yield
        return
    connections.close_all()
    forget_process()


@contextmanager
def _all_patched(modules: list[Any], fault_point: Any) -> Iterator[None]:
    patches = [patch.object(module, "fault_point", fault_point) for module in modules]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


def work_or_die(lease: Lease, draw: random.Random, killed: list[str]) -> bool:
    """Work a run; whether its worker survived. The lease of a killed one has run out."""
    before = len(killed)
    with killed_at_some_point(draw, killed):
        work_lease(lease)
    if len(killed) > before:
        Run.objects.filter(state=Run.State.RUNNING).update(lease_until=_LONG_AGO)
    return len(killed) == before


class Backups:
    """Copies of the test's database, as a dump of each would have it."""

    def __init__(self) -> None:
        self._database = str(connection.settings_dict["NAME"])
        self._copies: list[str] = []

    def back_up(self) -> str:
        name = f"{self._database}_backup{len(self._copies)}"
        self._copies.append(name)
        self._copy(self._database, name)
        return name

    def restore(self, backup: str) -> None:
        """Put the older database in the place of the present one; its process begins anew, with the files it has."""
        self._copy(backup, self._database)
        forget_process()

    def drop_all(self) -> None:
        """And mark the test's database as another one, so that it isn't used for other tests."""
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE IF NOT EXISTS restored_by_a_test ()")
        connections.close_all()
        with self._server() as server:
            for name in self._copies:
                server.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(name)))

    def _copy(self, database: str, name: str) -> None:
        connections.close_all()
        with self._server() as server:
            for each in (database, name):
                server.execute(_NOBODY_ELSE, [each])
            server.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(name)))
            statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
            server.execute(statement.format(sql.Identifier(name), sql.Identifier(database)))

    def _server(self) -> psycopg.Connection[tuple[Any, ...]]:
        settings = connection.settings_dict
        return psycopg.connect(
            host=settings["HOST"] or None,
            port=settings["PORT"] or None,
            user=settings["USER"] or None,
            password=settings.get("PASSWORD") or None,
            dbname="postgres",
            autocommit=True,
        )
