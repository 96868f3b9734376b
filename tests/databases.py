"""Databases of one test process: a migrated one, worlds that are made once, and copies for tests that commit.

The schema is restored from a dump, which the first run after a change of migrations makes. A test in a transaction uses
the database of its world and rolls back; a test that commits gets a copy, which is reset and renamed for the next one.
The number series of every database begin elsewhere, so that nothing that a process caches by a row's id is taken for
another row.
"""

from __future__ import annotations

import copy
import fcntl
import hashlib
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, LiteralString
from zlib import crc32

import psycopg
from django.conf import settings as django_settings
from psycopg import sql

from apps.cli.stack.postgres import find_binaries
from apps.core.code_paths import REPOSITORY
from tests.database_reset import Baseline, Connection, may_reset
from tests.shared_setup import set_up_once

_IDS_OF_A_WORLD = 1_000_000
_IDS_OF_A_COPY = 10_000
# A template may have no sessions; one that has just been closed takes a moment to end.
_NOBODY_ELSE = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s"
_NEW_SERIES = """
SELECT setval(format('%%I.%%I', schemaname, sequencename)::regclass, %s)
FROM pg_sequences WHERE data_type::text <> 'smallint'
"""


@dataclass(frozen=True)
class World:
    """A database with contents that many tests begin with, and what its maker returned."""

    database: str
    made: Any


class Databases:
    """Named `test_fairshare[_gw0][_world]`; `settings` is Django's dict of the default connection."""

    def __init__(self, settings: dict[str, Any], *, suffix: str, schemas: Path) -> None:
        self._name = str(settings["NAME"])
        self.empty = "_".join(filter(None, ["test", self._name, suffix]))
        self.settings = settings
        self._sessions: dict[str, Connection] = {}  # which stay: beginning one takes longer than most statements
        self._schemas = schemas
        self._worlds: dict[str, World] = {}
        self._copies = 0
        self._baselines: dict[str, Baseline] = {}  # by the database that was copied
        self._spares: dict[str, str] = {}  # a reset copy, by the database that was copied

    @cached_property
    def schema(self) -> Path:
        """The dump, as the server here writes it; there once a process is prepared, unless it couldn't be made."""
        return self._schemas / f"{schema_digest()}.sql"

    def prepare(self) -> None:
        """The migrated database without rows of its own."""
        self._create(self.empty)
        self.use(self.empty)
        schema = self.schema
        with (self._schemas / "lock").open("w") as lock:  # the other processes wait for the first one's dump
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not schema.exists():
                self._migrate_and_dump(schema)
                return
        with self._connect(self.settings) as connection:
            connection.execute(schema.read_text(encoding="utf-8"))

    def world(self, name: str, make: Callable[[], Any], *, is_shared: bool = False) -> World:
        """The world of this name, made and committed at its first use; the process is left connected to it.

        is_shared: made once a run, and copied by the other processes, which get nothing of what `make` returns.
        """
        if name not in self._worlds:
            database = self.world_database(name)
            if is_shared:
                shared = set_up_once(f"world-{name}", lambda _folder: self._make_shared(name, make))
                self._create(database, template=shared["database"])
                self._worlds[name] = World(database, None)
            else:
                self._worlds[name] = World(database, self._make(database, name, make))
        found = self._worlds[name]
        self.use(found.database)
        return found

    def world_database(self, name: str) -> str:
        return f"{self.empty}_{name}"

    def copy(self, database: str) -> str:
        """Another database with the same rows; the process is left connected to it."""
        from django.db import connections

        connections.close_all()  # a template may have no connections
        self._copies += 1
        name = f"{self.empty}_copy{self._copies}"
        if spare := self._spares.pop(database, None):
            self._rename(spare, name)
        else:
            self._create(name, template=database)
        self.use(name)
        connections["default"].ensure_connection()
        connection = connections["default"].connection  # the test's own: beginning another would take longer than this
        connection.execute(_NEW_SERIES, [1_001 * _IDS_OF_A_WORLD + self._copies * _IDS_OF_A_COPY])
        if may_reset(connection):
            connection.execute("SELECT pg_stat_reset()")  # count the changes of the next test only
            if database not in self._baselines:
                self._baselines[database] = Baseline(connection)
        return name

    def release_copy(self, name: str, database: str) -> None:
        """Reset a copy for the next test that copies the same database, or drop it."""
        from django.db import connections

        connections.close_all()
        if self._reset_copy(name, database):
            self._spares[database] = name
        else:
            self.drop(name)

    def check_empty(self) -> None:
        """A row that some test wrote past its copy would be found by all that follow."""
        written = "SELECT actor_name, verb, subject FROM accounts_auditevent"
        rows = self._session(self.empty).execute(written).fetchall()
        assert not rows, f"A test wrote into the database that others begin with: {rows}"

    def drop(self, database: str) -> None:
        from django.db import connections

        connections.close_all()
        self._leave(database)
        self._maintain(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database)))

    def drop_all(self) -> None:
        for name in [*self._spares.values(), *(world.database for world in self._worlds.values()), self.empty]:
            self.drop(name)
        for session in self._sessions.values():
            session.close()

    def use(self, database: str) -> None:
        """Connect Django to it: this thread now, others at their next connection."""
        from django.db import connections

        if self.settings["NAME"] != database:
            connections.close_all()
            self.settings["NAME"] = database

    def _make(self, database: str, name: str, make: Callable[[], Any]) -> Any:
        self._create(database, template=self.empty)
        self._renumber(database, (crc32(name.encode()) % 1_000 + 1) * _IDS_OF_A_WORLD)
        self.use(database)
        return make()

    def _make_shared(self, name: str, make: Callable[[], Any]) -> dict[str, str]:
        database = f"test_{self._name}_shared_{name}"
        self._make(database, name, make)
        self.use(self.empty)  # a template may have no connections
        return {"database": database}

    def _create(self, database: str, *, template: str = "template1") -> None:
        self.drop(database)
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
        self._leave(template)
        if template != "template1":  # the server's own, where others may be at work
            self._maintain(_NOBODY_ELSE, template)
        self._maintain(statement.format(sql.Identifier(database), sql.Identifier(template)))

    def _reset_copy(self, name: str, database: str) -> bool:
        if database not in self._baselines:
            return False
        self._maintain(_NOBODY_ELSE, name)  # a session reports its counters when it ends
        with self._connect({**self.settings, "NAME": name}) as copied:
            return self._baselines[database].restore(copied, lambda: self._connect({**self.settings, "NAME": database}))

    def _rename(self, database: str, name: str) -> None:
        statement = sql.SQL("ALTER DATABASE {} RENAME TO {}").format(sql.Identifier(database), sql.Identifier(name))
        self._maintain(_NOBODY_ELSE, database)
        self._maintain(statement)

    def _maintain(self, statement: sql.Composed | LiteralString, *parameters: str) -> None:
        self._session("postgres").execute(statement, parameters)

    def _session(self, database: str) -> Connection:
        if database not in self._sessions or self._sessions[database].closed:
            self._sessions[database] = self._connect({**self.settings, "NAME": database})
        return self._sessions[database]

    def _leave(self, database: str) -> None:
        if session := self._sessions.pop(database, None):
            session.close()

    def _renumber(self, database: str, first: int) -> None:
        with self._connect({**self.settings, "NAME": database}) as connection:
            connection.execute(_NEW_SERIES, [first])

    def _migrate_and_dump(self, schema: Path) -> None:
        from django.core.management import call_command

        call_command("migrate", verbosity=0, interactive=False)
        self.use(self.empty)
        draft = schema.with_suffix(f".{os.getpid()}")
        done = subprocess.run(
            [find_binaries() / "pg_dump", "--inserts", "--no-owner", "--file", draft, self.empty],
            env={**os.environ, **_libpq_environment(self.settings)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:  # else each process migrates: slower, and just as right
            text = draft.read_text(encoding="utf-8")
            draft.write_text("".join(line for line in text.splitlines(keepends=True) if line[0] != "\\"))
            draft.replace(schema)

    @staticmethod
    def _connect(settings: Mapping[str, Any]) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(
            host=settings["HOST"] or None,
            port=settings["PORT"] or None,
            user=settings["USER"] or None,
            password=settings.get("PASSWORD") or None,
            dbname=settings["NAME"],
            autocommit=True,
        )


def copied(made: Any) -> Any:
    """What a world's maker returned, for one test to change as it likes."""
    return copy.deepcopy(made)


def _libpq_environment(settings: Mapping[str, Any]) -> dict[str, str]:
    names = {"PGHOST": "HOST", "PGPORT": "PORT", "PGUSER": "USER", "PGPASSWORD": "PASSWORD"}
    return {variable: str(settings[name]) for variable, name in names.items() if settings.get(name)}


def schema_digest() -> str:
    """Changes with each migration, kind of notice (each has a row), plug-in left out, library and server program."""
    digest = hashlib.sha256(" ".join(django_settings.FAIRSHARE_PLUGINS_LEFT_OUT).encode())
    made_from = [*REPOSITORY.glob("apps/**/migrations/*.py"), REPOSITORY / "apps/contrib/notices/kinds.py"]
    files = [*made_from, REPOSITORY / "requirements.lock", Path(__file__)]
    for path in sorted(files):
        digest.update(path.name.encode() + path.read_bytes())
    digest.update(subprocess.run([find_binaries() / "postgres", "--version"], capture_output=True, check=True).stdout)
    return digest.hexdigest()[:16]
