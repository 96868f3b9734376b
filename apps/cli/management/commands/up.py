"""`manage.py up`: run all processes of the site on one machine."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from apps.cli.stack import definitions
from apps.cli.stack.forking import CAN_FORK, load_applications
from apps.cli.stack.logs import LogEcho
from apps.cli.stack.paths import SIGN_INS, broker_dirs, sign_ins
from apps.cli.stack.postgres import CannotStart, PostgresServer
from apps.cli.stack.supervisor import GroupProgram, Signals, Supervisor, say
from apps.cli.stack.var_lock import VarLock, held
from apps.core.private_dirs import InsecureDirectory, private_dir

_OTHER_COMMAND_S = 60.0  # how long to wait for a `with_stack` command that uses the database
_PORT_S = 2.0  # how long to wait for the socket of a killed predecessor


class Command(BaseCommand):
    help = "Runs the whole site until Ctrl-C: embedded PostgreSQL if needed, web, workers and beat."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--no-sample", action="store_true", help="start with an empty site")
        parser.add_argument(
            "--no-backup", action="store_true", help="upgrade the embedded database without a backup before"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        var, port = Path(settings.VAR), int(settings.FAIRSHARE_PORT)
        signals = Signals()
        try:
            with signals.installed(), _sole_instance(var), _database(var, signals) as server:
                _refuse_taken_port(port, signals)
                arguments = ["--no-sample"] if options["no_sample"] else []
                if server is not None and not options["no_backup"]:
                    arguments.append("--backup")
                _serve(var, port, server, signals, arguments)
        except (CannotStart, InsecureDirectory) as error:
            if not signals.stopping():
                raise CommandError(str(error)) from error


@contextlib.contextmanager
def _sole_instance(var: Path) -> Iterator[None]:
    lock = VarLock(var, "up.lock")
    if not lock.take():
        raise CannotStart(
            f"An instance runs in {var} already (process {lock.holder()}): stop it, "
            "or set FAIRSHARE_VAR and FAIRSHARE_PORT for one more."
        )
    with held(lock):
        yield


@contextlib.contextmanager
def _database(var: Path, signals: Signals) -> Iterator[PostgresServer | None]:
    """Run the embedded server during the block; yields None if DATABASE_URL names another server."""
    if not settings.FAIRSHARE_EMBEDDED_DATABASE:
        yield None
        return
    lock = VarLock(var, "postgres.lock")
    deadline = time.monotonic() + _OTHER_COMMAND_S
    while not lock.take():
        if signals.stopping() or time.monotonic() > deadline:
            raise CannotStart(f"Process {lock.holder()} uses the database in {var}: wait for it or stop it.")
        signals.sleep(0.2)
    with held(lock):
        server = PostgresServer(var)
        server.start(stopping=signals.stopping)
        try:
            yield server
        finally:
            server.stop()


def _refuse_taken_port(port: int, signals: Signals) -> None:
    """Fail if the port is in use: the web server would share it, and two instances would answer in turn."""
    deadline = time.monotonic() + _PORT_S
    while not signals.stopping():
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(
                socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
            )  # old connections of a predecessor do not matter
            try:
                probe.bind((definitions.HOST, port))
            except OSError as error:
                if time.monotonic() > deadline:
                    raise CannotStart(f"Port {port} is taken ({error.strerror}): set FAIRSHARE_PORT.") from error
            else:
                return
        signals.sleep(0.2)


def _serve(var: Path, port: int, server: PostgresServer | None, signals: Signals, preparation: Sequence[str]) -> None:
    """preparation: arguments of `prepare`."""
    log = private_dir(var / "log")
    # Delete messages of an earlier start. They only have ids of runs, and an incomplete file would stop a worker.
    if settings.CELERY_BROKER_URL == "filesystem://":
        shutil.rmtree(var / "broker", ignore_errors=True)
        broker_dirs(var)
    workers = definitions.workers(port, settings.FAIRSHARE_WORKERS)
    web = definitions.web(port, n_processes=settings.FAIRSHARE_WEB_WORKERS)
    programs = [web, *workers, definitions.beat()]
    environment = dict(definitions.environment(var, port))
    names = [*(["postgres"] if server else []), *(program.name for program in programs)]
    supervisor = Supervisor(signals, [LogEcho(log / f"{name}.log", name, say) for name in names])
    known = frozenset(sign_ins(var=var))
    say(f"Preparing {var} …")
    try:
        if server is not None:
            supervisor.add_database(server)
        if CAN_FORK:
            load_applications()
        supervisor.run_once(definitions.prepare(*preparation), environment)
        bell = GroupProgram(definitions.bell(), environment, log / "bell.log")
        for program in programs:
            group = GroupProgram(program, environment, log / f"{program.name}.log")
            supervisor.add(group, bell=bell if program in workers else None)
        supervisor.run(_Announcement(var, port, known).print_when_ready)
    finally:
        supervisor.stop()


class _Announcement:
    """Prints the address when the site answers, with passwords that this start has generated.

    Older passwords are not printed again, because logs may store the output.
    """

    def __init__(self, var: Path, port: int, known: Collection[str]) -> None:
        self._var, self._known = var, known
        self._address = f"http://{definitions.HOST}:{port}/"

    def print_when_ready(self) -> bool:
        if not self._answers():
            return False
        say(
            f"\nFairshare is ready: {self._address}\n{self._people()}"
            f"Data, logs and passwords: {self._var}. Ctrl-C stops everything.\n"
        )
        return True

    def _people(self) -> str:
        passwords = sign_ins(var=self._var)
        new = {name: password for name, password in passwords.items() if name not in self._known}
        lines = [f"  {name:<12} {password}" for name, password in new.items()]
        if new:
            lines.insert(0, "Sign in as (until changed; printed this once):")
        if passwords:
            lines.append(f"Passwords of the first start: {self._var / SIGN_INS}")
        return "".join(f"{line}\n" for line in lines)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._address}healthz", timeout=1):  # noqa: S310 - our own address
                return True
        except urllib.error.HTTPError:
            return True  # any answer shows that the server runs
        except OSError:
            return False
