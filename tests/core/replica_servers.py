"""A real primary with a streaming replica, for tests that read from one."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from apps.cli.stack.postgres import PORT, USER, PostgresServer, find_binaries
from apps.core.private_dirs import private_dir

_OPTIONS = {
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_wal_senders": "4",
    "wal_keep_size": "1GB",
}
_WAIT_S = 60.0


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class ReplicatedDatabase:
    """The copy of a database on a server of its own, which streams to another one."""

    def __init__(self, folder: Path, copied: dict[str, Any]) -> None:
        self._folder, self.name = folder, str(copied["NAME"])
        self.primary = PostgresServer(folder / "primary", options=_OPTIONS)
        self.primary.start()
        with self.primary.connect("postgres") as connection:
            connection.execute(f'CREATE DATABASE "{self.name}"')
        binaries = find_binaries()
        source = ["-h", str(copied["HOST"]), "-p", str(copied["PORT"]), "-U", str(copied["USER"])]
        dump = subprocess.run(
            [binaries / "pg_dump", *source, "--no-owner", self.name], capture_output=True, check=True, timeout=120
        )
        target = ["-h", str(self.primary.sockets), "-p", str(PORT), "-U", USER, "-d", self.name]
        subprocess.run(
            [binaries / "psql", *target, "-q", "-v", "ON_ERROR_STOP=1"],
            input=dump.stdout,
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=120,
        )
        self.replica = self.make_replica("replica")
        self.replica.start()

    def make_replica(self, name: str) -> PostgresServer:
        made = PostgresServer(self._folder / name, options=_OPTIONS)
        private_dir(made.var)
        command = [*made._command("pg_basebackup", signal.SIGKILL), "-D", str(made.data), "-X", "stream", "-R"]
        command += ["-c", "fast", "-h", str(self.primary.sockets), "-p", str(PORT), "-U", USER]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        return made

    def on_replica(self, statement: str) -> Any:
        with self.replica.connect(self.name) as connection:
            row = connection.execute(statement).fetchone()
        return row and row[0]

    def on_primary(self, statement: str) -> Any:
        with self.primary.connect(self.name) as connection:
            row = connection.execute(statement).fetchone()
        return row and row[0]

    def pause(self) -> None:
        self.on_replica("SELECT pg_wal_replay_pause()")
        wait_until(lambda: self.on_replica("SELECT pg_get_wal_replay_pause_state()") == "paused", "not paused")

    def catch_up(self) -> None:
        """Let the replica replay all that the primary has."""
        self.on_replica("SELECT pg_wal_replay_resume()")
        self.on_primary("SELECT pg_logical_emit_message(true, 'test', '')::text")  # its commit flushes all before it
        position = self.on_primary("SELECT pg_current_wal_lsn()")
        wait_until(
            lambda: self.on_replica(f"SELECT pg_last_wal_replay_lsn() >= '{position}'::pg_lsn"), "no replication"
        )

    def stop(self) -> None:
        self.replica.stop()
        self.primary.stop()

    def settings_of(self, server: PostgresServer, default: dict[str, Any]) -> dict[str, Any]:
        return {**default, "HOST": str(server.sockets), "PORT": str(PORT), "USER": USER, "NAME": self.name}
