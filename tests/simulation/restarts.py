"""The restore of an older state in place of the present one: by a copy of the database, or by a backup as operators
make it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings
from django.db import connection, connections
from django.db.models import Sum
from psycopg import sql

from apps.cli.backup.making import MadeBackup, make_backup
from apps.cli.backup.origin import Origin
from apps.cli.backup.restoring import restore_backup
from apps.policies.models import Policy
from apps.priorities.models import Snapshot
from apps.usage.models import Bucket, Record, Source
from tests.worlds import forget_process

_NOBODY_ELSE = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s"


@dataclass(frozen=True)
class Archive:
    """A backup as `backup` makes it, and what its instance had then."""

    made: MadeBackup
    contents: Sequence[Any]


def contents() -> Sequence[Any]:
    """What a restored instance has in common with that of the backup, but not with one of another instant."""
    return [
        list(Policy.all_objects.order_by("pk").values_list("slug", "head_number")),
        list(Source.all_objects.order_by("pk").values_list("slug", "n_records", "watermark", "archived_at")),
        Record.objects.count(),
        Bucket.objects.aggregate(Sum("cpu_s")),
        list(Snapshot.objects.filter(is_live=True).order_by("pk").values_list("policy__slug", "digest")),
    ]


class Backups:
    """Copies of the test's database and of its uploads, and archives."""

    def __init__(self) -> None:
        self._database = str(connection.settings_dict["NAME"])
        self._copies: list[str] = []
        self._folder = Path(tempfile.mkdtemp(prefix="backups-", dir=settings.VAR))
        self._n_copies = self._n_archives = 0

    def back_up(self) -> str:
        self._n_copies += 1
        name = f"{self._database}_backup{self._n_copies}"
        self._copies.append(name)
        self._copy(self._database, name)
        _replace_folder(self._folder / name, _uploads())
        return name

    def restore(self, backup: str, *, is_failover: bool = False) -> None:
        """Put the older database in the place of the present one; its process begins anew, with the files it has.

        is_failover: to a server that lacks the newest transactions; the process goes on with what it remembers.
        """
        self._copy(backup, self._database)
        _replace_folder(_uploads(), self._folder / backup)
        if not is_failover:
            forget_process()

    def begin_anew(self, nothing: str) -> None:
        """Restore a copy of before a history, and forget all others."""
        self.restore(nothing)
        with database_server() as server:
            for name in self._copies:
                if name != nothing:
                    self._drop(server, name)
        self._copies = [nothing]
        for path in self._folder.iterdir():
            if path.is_file():
                path.unlink()
            elif path.name != nothing:
                shutil.rmtree(path)

    def archive(self, at: datetime) -> Archive:
        """As `backup` does."""
        self._n_archives += 1
        made = make_backup(self._folder / f"{self._n_archives}.backup", at=at)
        return Archive(made, contents())

    def empty(self) -> None:
        """Another machine, with an empty database."""
        connections.close_all()
        with database_server() as server:
            self._drop(server, self._database)
            statement = sql.SQL("CREATE DATABASE {} TEMPLATE template0 STRATEGY file_copy")
            server.execute(statement.format(sql.Identifier(self._database)))
        _replace_folder(_uploads(), None)
        forget_process()

    def restore_archive(self, archive: Archive, *, is_start_over: bool) -> None:
        """As `restore` does."""
        try:
            with archive.made.path.open("rb") as file:
                restore_backup(file, origin=Origin(sha256=archive.made.sha256), is_start_over=is_start_over)
        finally:
            forget_process()

    def drop_all(self) -> None:
        """And mark the test's database as another one, so that it isn't used for other tests."""
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE IF NOT EXISTS restored_by_a_test ()")
        connections.close_all()
        with database_server() as server:
            for name in self._copies:
                self._drop(server, name)
        shutil.rmtree(self._folder)

    def _copy(self, database: str, name: str) -> None:
        connections.close_all()
        with database_server() as server:
            server.execute(_NOBODY_ELSE, [database])
            self._drop(server, name)
            statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
            server.execute(statement.format(sql.Identifier(name), sql.Identifier(database)))

    @staticmethod
    def _drop(server: psycopg.Connection[tuple[Any, ...]], name: str) -> None:
        server.execute(_NOBODY_ELSE, [name])
        server.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(name)))


def database_server() -> psycopg.Connection[tuple[Any, ...]]:
    """A connection to the server of the test's database, but to another database."""
    settings = connection.settings_dict
    return psycopg.connect(
        host=settings["HOST"] or None,
        port=settings["PORT"] or None,
        user=settings["USER"] or None,
        password=settings.get("PASSWORD") or None,
        dbname="postgres",
        autocommit=True,
    )


def _uploads() -> Path:
    return Path(settings.VAR) / "uploads"


def _replace_folder(folder: Path, by: Path | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if by is not None and by.is_dir():
        shutil.copytree(by, folder)
