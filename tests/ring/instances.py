"""Instances as real processes on loopback: a database for each in the suite's PostgreSQL, its web server, and a worker
that gets its commands over a pipe, because the clock of the whole is ours and not the wall's.

Each ends with the process that started it, and all are stopped by `Instances.close`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

from apps.cli.stack import definitions
from apps.cli.stack.parent import dying_with_parent
from apps.core.code_paths import REPOSITORY

PATIENCE_S = 120.0  # for a start, on cores that others use as well
# Without compiled modules each process would start two seconds later.
_OF_THE_SUITE = (
    "DATABASE_URL",
    "FAIRSHARE_CLOCK",
    "PYTEST_CURRENT_TEST",
    "PYTEST_XDIST_WORKER",
    "PYTHONDONTWRITEBYTECODE",
)


class Failed(AssertionError):
    """An instance refused a command, or has ended; with the code of the product's own error."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Instance:
    """One authority with a database, a clock, a web server and a worker of its own."""

    def __init__(self, name: str, *, home: Path, port: int, settings: Mapping[str, str]) -> None:
        self.name = name
        self.port = port
        self.clock = home / "clock"
        self.log = home / "log"
        self.clock_is_off = timedelta()
        self._settings = dict(settings)
        self._home = home
        self._web: subprocess.Popen[bytes] | None = None
        self._worker: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def issuer(self) -> str:
        return f"{self.name}.example"

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name not in _OF_THE_SUITE}
        return {**inherited, **definitions.environment(self._home, self.port), **self._settings}

    def set_clock(self, at: datetime) -> None:
        """Its own idea of now; a reader never sees half of it."""
        draft = self.clock.with_suffix(".new")
        draft.write_text((at + self.clock_is_off).isoformat(), encoding="utf-8")
        draft.replace(self.clock)

    def launch(self, *, has_web: bool = True) -> None:
        """The web server continues to start: see `await_web`."""
        if has_web:
            self.launch_web()
        with self.log.open("ab") as log:
            self._worker = subprocess.Popen(
                [sys.executable, "-m", "tests.ring.worker"],
                cwd=REPOSITORY,
                env=self.environment,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                preexec_fn=dying_with_parent(signal.SIGKILL),
            )

    def launch_web(self) -> None:
        with self.log.open("ab") as log:
            self._web = subprocess.Popen(
                definitions.web(self.port).command,
                cwd=REPOSITORY,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=dying_with_parent(signal.SIGKILL),
            )

    def await_web(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self._answers():
            if self._web is None or self._web.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"{self.name} doesn't serve:\n{self._log_end()}")
            time.sleep(0.1)  # its start is waited for, no outcome

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/healthz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def kill_web(self) -> None:
        """At once and without a goodbye, with the process that it forked."""
        if self._web is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._web.pid, signal.SIGKILL)
            self._web.wait()
            self._web = None

    def close(self) -> None:
        self.kill_web()
        if self._worker is not None:
            self._worker.kill()
            self._worker.wait()
            for pipe in (self._worker.stdin, self._worker.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
            self._worker = None

    def tell(self, do: str, **more: Any) -> Any:
        """One command, and what came of it."""
        worker = self._worker
        if worker is None or worker.stdin is None or worker.stdout is None:
            raise Failed(f"{self.name} isn't running.")
        try:
            worker.stdin.write(json.dumps({"do": do, **more}) + "\n")
            worker.stdin.flush()
            line = worker.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise Failed(f"{self.name}'s worker is gone:\n{self._log_end()}")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(f"{self.name}, {do}: {answer['error']}", answer["code"])
        return answer["result"]

    def _log_end(self) -> str:
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-25:])


@dataclass(frozen=True)
class Server:
    """A PostgreSQL as Django's settings name it, and a migrated, empty database in it without connections."""

    settings: Mapping[str, Any]
    template: str

    def url(self, database: str) -> str:
        given = self.settings
        who = quote(given["USER"], safe="") + (f":{quote(given['PASSWORD'], safe='')}" if given["PASSWORD"] else "")
        return f"postgres://{who}@{quote(str(given['HOST']), safe='')}:{given['PORT'] or 5432}/{database}"

    def execute(self, *statements: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())


class Instances:
    """All of a run, by name; `web` are those that serve. ports: others that may be fetched from, as faulty peers'."""

    def __init__(
        self, names: Collection[str], server: Server, *, web: Collection[str], ports: Collection[int] = ()
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="fairshare-ring-"))
        self._server = server
        self._web = set(web)
        self._pool = ThreadPoolExecutor(max_workers=len(names))
        self._databases = {name: f"{server.template}_{name.replace('-', '_')}" for name in names}
        own = {name: free_port() for name in names}
        allowed = ",".join(f"127.0.0.1:{port}" for port in [*own.values(), *ports])
        self.all = {name: self._instance(name, port, allowed) for name, port in own.items()}

    def _instance(self, name: str, port: int, allowed: str) -> Instance:
        home = self._folder / name
        home.mkdir(mode=0o700)
        settings = {
            "DATABASE_URL": self._server.url(self._databases[name]),
            "DJANGO_SETTINGS_MODULE": "fairshare_web.settings",
            "FAIRSHARE_TESTING": "1",
            "FAIRSHARE_CLOCK": str(home / "clock"),
            "FAIRSHARE_ISSUER": f"{name}.example",
            "FAIRSHARE_SITE": name,
            "FAIRSHARE_OUTBOUND_ALLOW": allowed,
            "CELERY_BROKER_URL": "memory://",  # the bell rings in vain: each worker works on command
        }
        return Instance(name, home=home, port=port, settings=settings)

    def __getitem__(self, name: str) -> Instance:
        return self.all[name]

    def start(self, at: datetime) -> None:
        for database in self._databases.values():
            self._server.execute(
                f'DROP DATABASE IF EXISTS "{database}" WITH (FORCE)',
                f'CREATE DATABASE "{database}" TEMPLATE "{self._server.template}"',
            )
        for name, one in self.all.items():
            one.set_clock(at)
            one.launch(has_web=name in self._web)
        for name in self._web:
            self.all[name].await_web()

    def tell_each(
        self, names: Collection[str], do: str, of: Callable[[str], dict[str, Any]] = lambda _: {}
    ) -> dict[str, Any]:
        """The same command to several at once; `of` makes each one's arguments."""
        asked = {name: self._pool.submit(self.all[name].tell, do, **of(name)) for name in names}
        return {name: future.result() for name, future in asked.items()}

    def close(self) -> None:
        """Everything that was started, in any state; databases and files too."""
        for one in self.all.values():
            one.close()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._server.execute(*(f'DROP DATABASE IF EXISTS "{one}" WITH (FORCE)' for one in self._databases.values()))
        shutil.rmtree(self._folder, ignore_errors=True)
