"""`manage.py up`: the whole product on one machine with one command."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from apps.cli.stack import supervisor as stack
from apps.cli.stack.paths import SIGN_INS, InsecureDirectory, broker_dirs, private_dir, sign_ins
from apps.cli.stack.postgres import CannotStart, PostgresServer, VarLock, held
from apps.cli.stack.processes import LogEcho
from apps.cli.stack.supervisor import GroupProgram, Signals, Supervisor, say

_OTHER_COMMAND_S = 60.0  # a `with_stack` command may hold the database that long before we fail
_PORT_S = 2.0  # a killed predecessor's socket is closed by then


class Command(BaseCommand):
    help = "Runs the product: embedded PostgreSQL if needed, web, worker and beat, until Ctrl-C."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--no-sample", action="store_true", help="start with an empty site")

    def handle(self, *args: Any, **options: Any) -> None:
        var, port = Path(settings.VAR), int(settings.FAIRSHARE_PORT)
        signals = Signals()
        try:
            with signals.installed(), _sole_instance(var), _database(var, signals) as server:
                _refuse_taken_port(port, signals)
                _serve(var, port, server, signals, no_sample=options["no_sample"])
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
    """The embedded server while the block runs; nothing when DATABASE_URL names another."""
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
    """The web server shares ports silently, so two instances would answer in turn."""
    deadline = time.monotonic() + _PORT_S
    while not signals.stopping():
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of a predecessor may linger
            try:
                probe.bind((stack.HOST, port))
            except OSError as error:
                if time.monotonic() > deadline:
                    raise CannotStart(f"Port {port} is taken ({error.strerror}): set FAIRSHARE_PORT.") from error
            else:
                return
        signals.sleep(0.2)


def _serve(var: Path, port: int, server: PostgresServer | None, signals: Signals, *, no_sample: bool) -> None:
    log = private_dir(var / "log")
    _empty_broker(var)
    workers = stack.workers(port)
    programs = [stack.web(port), *workers, stack.beat()]
    environment = dict(stack.environment(var, port))
    names = [*(["postgres"] if server else []), *(program.name for program in programs)]
    supervisor = Supervisor(signals, [LogEcho(log / f"{name}.log", name, say) for name in names])
    known = frozenset(sign_ins(var=var))
    say(f"Preparing {var} …")
    try:
        if server is not None:
            supervisor.add_database(server)
        prepare = stack.python("-m", "apps.cli.stack.prepare", *(["--no-sample"] if no_sample else []))
        supervisor.run_once(prepare, environment)
        bell = GroupProgram(stack.bell(), environment, log / "bell.log")
        for program in programs:
            group = GroupProgram(program, environment, log / f"{program.name}.log")
            supervisor.add(group, bell=bell if program in workers else None)
        supervisor.run(_Announcement(var, port, known).made)
    finally:
        supervisor.stop()


def _empty_broker(var: Path) -> None:
    """Messages of an earlier start only wake workers: the sweeper checks anyway, and half a file would stop a
    worker.
    """
    if settings.CELERY_BROKER_URL == "filesystem://":
        shutil.rmtree(var / "broker", ignore_errors=True)
        broker_dirs(var)


class _Announcement:
    """The address, once the site answers, and the passwords that this start made: terminals are kept in logs."""

    def __init__(self, var: Path, port: int, known: Collection[str]) -> None:
        self._var, self._known = var, known
        self._address = f"http://{stack.HOST}:{port}/"

    def made(self) -> bool:
        if not self._answers():
            return False
        say(
            f"\nFairshare is ready: {self._address}\n{self._people()}"
            f"Data, logs and passwords: {self._var}. Ctrl-C stops everything.\n"
        )
        return True

    def _people(self) -> str:
        found = sign_ins(var=self._var)
        fresh = {name: password for name, password in found.items() if name not in self._known}
        said = [f"  {name:<12} {password}" for name, password in fresh.items()]
        if fresh:
            said.insert(0, "Sign in as (until changed; printed this once):")
        if found:
            said.append(f"Passwords of the first start: {self._var / SIGN_INS}")
        return "".join(f"{line}\n" for line in said)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._address}healthz", timeout=1):  # noqa: S310 - our own address
                return True
        except urllib.error.HTTPError:
            return True  # an answer, whatever it says
        except OSError:
            return False
