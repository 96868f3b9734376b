"""`manage.py with_stack -- COMMAND…`: run a command with the embedded database, for scripts and cron."""

from __future__ import annotations

import argparse
import contextlib
import math
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from apps.cli.stack import definitions
from apps.cli.stack.parent import dying_with_parent
from apps.cli.stack.postgres import CannotStart, PostgresServer
from apps.cli.stack.var_lock import VarLock, held
from apps.core.private_dirs import InsecureDirectory

_WAIT_S = 60.0


class Command(BaseCommand):
    help = "Starts the embedded database if necessary, runs a command, and returns its exit status."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("command", nargs=argparse.REMAINDER, help="command and its arguments, after --")

    def handle(self, *args: Any, **options: Any) -> None:
        command = list(options["command"])
        if command[:1] == ["--"]:
            command = command[1:]
        if not command:
            raise CommandError("Give a command after --, such as: with_stack -- ./report.sh", returncode=2)
        try:
            with _database(Path(settings.VAR)):
                status = _run(command)
        except (CannotStart, InsecureDirectory) as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"{command[0]} can't be run: {error.strerror}.", returncode=127) from error
        sys.exit(status)


@contextlib.contextmanager
def _database(var: Path) -> Iterator[None]:
    """Use the running server; else start one, and stop it when all commands that use it have ended."""
    if not settings.FAIRSHARE_EMBEDDED_DATABASE:
        yield
        return
    server = PostgresServer(var)
    owner, users = VarLock(var, "postgres.lock"), VarLock(var, "postgres.users")
    deadline = time.monotonic() + _WAIT_S
    while True:
        if owner.take():
            with held(owner), _own(server, users):
                yield
            return
        if users.take(shared=True):
            if server.answers():
                with held(users):
                    yield
                return
            users.release()
        if time.monotonic() > deadline:
            raise CannotStart(
                f"Process {owner.holder()} holds the database in {var}, but the database does not answer."
            )
        time.sleep(0.1)


@contextlib.contextmanager
def _own(server: PostgresServer, users: VarLock) -> Iterator[None]:
    server.start()
    try:
        if not _has_tables(server) and _run(definitions.manage("migrate", "--no-input", "--verbosity", "0")) != 0:
            raise CannotStart("Creating the tables failed; see the lines above.")
        yield
    finally:
        users.take(wait=True)
        server.stop()
        users.release()


def _has_tables(server: PostgresServer) -> bool:
    with server.connect() as connection:
        row = connection.execute("SELECT to_regclass('django_migrations')").fetchone()
        return row is not None and row[0] is not None


def _run(command: Sequence[str]) -> int:
    """Run the command and return its exit status. SIGTERM is passed on; Ctrl-C reaches the command directly."""
    requested: list[int] = []
    started: list[subprocess.Popen[bytes]] = []

    def pass_on(sig: int, _frame: object) -> None:
        requested.append(sig)
        for process in started:
            process.terminate()

    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None),
        signal.SIGTERM: signal.signal(signal.SIGTERM, pass_on),
    }
    try:
        process = subprocess.Popen(command, preexec_fn=dying_with_parent(signal.SIGTERM))
        started.append(process)
        if requested:
            process.terminate()
        # A signal between Python's last look and a wait without limit would be seen only when the command has ended.
        status = process.wait(timeout=math.inf)  # looks every 50 ms
    finally:
        for sig, handler in before.items():
            signal.signal(sig, handler)
    return status if status >= 0 else 128 - status
