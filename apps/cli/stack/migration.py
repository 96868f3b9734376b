"""Migrate the tables while others work with them.

A statement that needs a lock waits for it for a moment only: meanwhile all that come later wait behind it. It is tried
again, for some minutes. One process migrates at a time; others wait for it.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.core.management.base import CommandError
from django.db import OperationalError, connection
from django.db.migrations.migration import Migration
from django.db.migrations.recorder import MigrationRecorder

from apps.core.disk_space import disk_full_message
from apps.core.errors import Invalid
from apps.core.pending_migrations import pending_migrations
from apps.core.postgresql import may_repeat
from apps.core.postgresql.base import IN_EACH_TRANSACTION

LOCK_S = 2  # others wait behind a statement that waits for a lock
PAUSE_S = 3.0  # for those that had to wait
PATIENCE_S = 300.0
_MIGRATING = 0x66736D67  # the advisory lock of the process that migrates
_LEAST_FREE_AFTER_MIGRATION_BYTES = 100 * 1024**2

_BUSY = """
SELECT pid, application_name, extract(epoch FROM clock_timestamp() - xact_start)::int FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start < clock_timestamp() - interval '1 second'
ORDER BY xact_start LIMIT 3
"""
_SIZE = """
SELECT COALESCE(sum(pg_total_relation_size(relid)), 0) FROM (
    SELECT relid FROM pg_partition_tree(to_regclass(%(table)s)) UNION SELECT to_regclass(%(table)s)) AS parts
WHERE relid IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class Room:
    """needed: bytes that the pending migrations take beside what is there. free: bytes of the disk."""

    needed: int
    free: int


def is_upgrade() -> bool:
    """Whether the database has tables of an earlier release, and lacks migrations of this one."""
    return bool(MigrationRecorder(connection).applied_migrations() and pending_migrations())


def check_room() -> None:
    """Refuse an upgrade for which the disk of the embedded database has no room; that of others isn't known here.

    Raises:
        Invalid: with what is needed, and what is free.
    """
    if settings.FAIRSHARE_EMBEDDED_DATABASE and is_upgrade():
        room = measure_room(pending_migrations())
        if room.free < room.needed:
            raise Invalid(
                f"The upgrade needs {_mb(room.needed)} MB on the disk of {settings.VAR}, and {_mb(room.free)} MB are "
                "free: make room, and start again. Nothing was changed."
            )


def measure_room(pending: Sequence[Migration]) -> Room:
    with connection.cursor() as cursor:

        def size_of(table: str) -> int:
            cursor.execute(_SIZE, {"table": table})
            return int(cursor.fetchone()[0])

        copies = [pair for migration in pending for pair in getattr(migration, "copies", {}).items()]
        # An interrupted copy is part of what is used.
        copied = sum(max(size_of(table) - size_of(copy), 0) for table, copy in copies)
        cursor.execute("SELECT pg_size_bytes(current_setting('max_wal_size'))")
        logged = min(copied, int(cursor.fetchone()[0]))
    return Room(copied + logged + _LEAST_FREE_AFTER_MIGRATION_BYTES, shutil.disk_usage(settings.VAR).free)


def migrate_patiently(migrate: Callable[[], None], *, say: Callable[[str], object]) -> None:
    """Call `migrate` with a limit on its waits for locks, until it succeeds.

    Raises:
        CommandError: others hold a lock, or migrate, for minutes; or the disk is full.
    """
    deadline = time.monotonic() + PATIENCE_S
    with _only_one(deadline, say), _short_waits():
        while True:
            try:
                return migrate()
            except OperationalError as error:
                if full := disk_full_message(error):
                    raise CommandError(f"{full} Then start again: what is migrated stays.") from error
                if not may_repeat(error):
                    raise
                reason = f"Tables are in use{_busy()}."
                if time.monotonic() > deadline:
                    raise CommandError(f"{reason} Stop workers and beat, and start again.") from error
                say(f"{reason} The migration is tried again.")
            time.sleep(PAUSE_S)


@contextlib.contextmanager
def _short_waits() -> Iterator[None]:
    """Behind a pooler in each transaction, else for the session."""
    limits: dict[str, str] | None = connection.settings_dict.get(IN_EACH_TRANSACTION)
    if limits is not None:
        before = dict(limits)
        limits["lock_timeout"] = f"{LOCK_S}s"
        try:
            yield
        finally:
            limits.update(before)
        return
    with connection.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = '{LOCK_S}s'")
    try:
        yield
    finally:
        with contextlib.suppress(OperationalError), connection.cursor() as cursor:
            cursor.execute("RESET lock_timeout")


@contextlib.contextmanager
def _only_one(deadline: float, say: Callable[[str], object]) -> Iterator[None]:
    """Two at once would both make the tables. A pooler keeps no locks of a session, so there none is held."""
    if IN_EACH_TRANSACTION in connection.settings_dict:
        yield
        return
    is_waiting = False
    while not _lock("pg_try_advisory_lock"):
        if time.monotonic() > deadline:
            raise CommandError("Another process migrates the tables: wait for it, or end it, and start again.")
        if not is_waiting:
            say("Another process migrates the tables: waiting for it.")
            is_waiting = True
        time.sleep(0.5)
    try:
        yield
    finally:
        with contextlib.suppress(OperationalError):  # a lost session has no locks
            _lock("pg_advisory_unlock")


def _lock(function: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}(%s)", [_MIGRATING])
        return bool(cursor.fetchone()[0])


def _busy() -> str:
    """The sessions that have been in a transaction for longest, among which is the one that holds the lock."""
    with connection.cursor() as cursor:
        cursor.execute(_BUSY)
        sessions = [f"{name or 'process'} {pid} for {seconds} s" for pid, name, seconds in cursor.fetchall()]
    return f" ({', '.join(sessions)})" if sessions else ""


def _mb(n_bytes: int) -> str:
    return f"{n_bytes // 1024**2 + 1:,}"
