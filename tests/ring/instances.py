"""Instances as real processes on loopback: a database for each in the suite's PostgreSQL, its web server, and a worker
that gets its commands over a pipe, because the clock of the whole is ours and not the wall's.

Each ends with the process that started it, and all are stopped by `Instances.close`.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

from apps.cli.demo.instances import Failed, Instance
from tests.commands import run_manage

__all__ = ["Failed", "Instance", "Instances", "Server", "free_port"]

# Without compiled modules each process would start two seconds later.
_OF_THE_SUITE = (
    "DATABASE_URL",
    "FAIRSHARE_CLOCK",
    "PYTEST_CURRENT_TEST",
    "PYTEST_XDIST_WORKER",
    "PYTHONDONTWRITEBYTECODE",
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
        inherited = {name: value for name, value in os.environ.items() if name not in _OF_THE_SUITE}
        return Instance(name, home=home, port=port, environment={**inherited, **settings}, worker="tests.ring.worker")

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

    def restore(self, name: str, backup: Path) -> None:
        """On an empty machine: nothing of the former database and folder is there."""
        one, database = self.all[name], self._databases[name]
        one.close()
        self._server.execute(
            f'DROP DATABASE "{database}" WITH (FORCE)', f'CREATE DATABASE "{database}" TEMPLATE template0'
        )
        for path in one.clock.parent.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path not in (one.clock, one.log):
                path.unlink()
        run_manage("restore", str(backup), "--any-origin", env=one.environment).check_returncode()
        one.launch(has_web=name in self._web)
        if name in self._web:
            one.await_web()

    def tell_each(
        self, names: Collection[str], do: str, of: Callable[[str], dict[str, Any]] = lambda _: {}
    ) -> dict[str, Any]:
        """The same command to several at once; `of` makes each one's arguments."""
        asked = {name: self._pool.submit(self.all[name].request, do, **of(name)) for name in names}
        return {name: future.result() for name, future in asked.items()}

    def close(self) -> None:
        """Everything that was started, in any state; databases and files too."""
        for one in self.all.values():
            one.close()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._server.execute(*(f'DROP DATABASE IF EXISTS "{one}" WITH (FORCE)' for one in self._databases.values()))
        shutil.rmtree(self._folder, ignore_errors=True)
