"""The demo from its folder to its end: a database server, four instances, and rounds in which jobs run and time passes.

Everything is in one temporary folder, and every process ends with this one; what is left then, the cleaner removes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from psycopg import sql

from apps.cli.demo import grid
from apps.cli.demo.cleaner import PREFIX
from apps.cli.demo.instances import Instance
from apps.cli.demo.site import Site
from apps.cli.demo.worker_names import POLICY
from apps.cli.stack import definitions
from apps.cli.stack.parent import dying_with_parent
from apps.cli.stack.paths import write_once
from apps.cli.stack.postgres import DATABASE, USER, CannotStart, PostgresServer
from apps.cli.stack.supervisor import Signals, say
from apps.core.code_paths import REPOSITORY

SPEED = 60
ROUND_S = 60  # of simulated time
HISTORY = timedelta(hours=6)  # before the start, without priorities
_HISTORY_STEP_S = 600
_LINE_S = 3600  # of simulated time between two lines
_DATABASE_OPTIONS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}  # nothing is kept
_OWN = ("FAIRSHARE_", "DATABASE_URL", "CELERY_", "SECRET_KEY", "DJANGO_", "FAULT")  # of another instance's environment
_WHAT = {
    grid.PROJECT: "project.example: shares of the project aurora's members",
    grid.VO: "vo.example: the VO northlight mounts the project, and divides its shares",
    "site-a": "site-a.example: mounts the VO beside its own group, runs jobs",
    "site-b": "site-b.example: likewise, with other users",
}


def run_demo(*, first_port: int, at: datetime, signals: Signals) -> None:
    """Run until a signal; the simulated clock starts a day before `at`. Raises CannotStart with the reason."""
    ports = {name: first_port + n for n, name in enumerate(grid.NAMES)}
    for name, port in ports.items():
        _refuse_taken_port(name, port)
    with _folder() as folder, _server(folder, signals) as server, _instances(server, folder, ports) as instances:
        say("Preparing four instances; this takes half a minute …")
        demo = _Demo(instances, signals, at=at, tokens_file=folder / "tokens")
        demo.set_up()
        if not signals.stopping():
            say(demo.welcome())
        demo.run()


class _Demo:
    def __init__(self, instances: Mapping[str, Instance], signals: Signals, *, at: datetime, tokens_file: Path) -> None:
        self._instances, self._signals, self._tokens_file = instances, signals, tokens_file
        self._password = "-".join(secrets.token_hex(3) for _ in range(3))
        start_at = at.replace(minute=0, second=0, microsecond=0) - timedelta(days=1)
        self._began_at = start_at - HISTORY
        self._now_s = 0.0
        self._sites: list[Site] = []

    @property
    def _now(self) -> datetime:
        return self._began_at + timedelta(seconds=self._now_s)

    def set_up(self) -> None:
        """Start all processes, agree on shares, and let sites work for some hours without priorities."""
        for instance in self._instances.values():
            instance.set_clock(self._began_at)
            instance.launch()
        for instance in self._instances.values():
            instance.await_web(stopping=self._signals.stopping)
        if self._signals.stopping():
            return
        tokens = grid.set_up(self._instances, self._password)
        write_once(self._tokens_file, "".join(f"{name} {token}\n" for name, token in tokens.items()))
        self._sites = [
            Site(name, address=self._instances[name].address, token=tokens[name], began_at=self._began_at)
            for name in grid.SITES
        ]
        while self._now_s < HISTORY.total_seconds() and not self._signals.stopping():
            records: dict[str, list[dict[str, object]]] = {site.name: [] for site in self._sites}
            for _ in range(3600 // _HISTORY_STEP_S):
                since_s, self._now_s = self._now_s, self._now_s + _HISTORY_STEP_S
                for site in self._sites:
                    records[site.name] += site.run_until(self._now_s, since_s=since_s, by_priority=False)
            self._pass_on(records)

    def run(self) -> None:
        """Rounds at `SPEED`, or as fast as this machine can, until a signal."""
        due_s = time.monotonic()
        while not self._signals.stopping():
            since_s, self._now_s = self._now_s, self._now_s + ROUND_S
            self._pass_on(
                {site.name: site.run_until(self._now_s, since_s=since_s, by_priority=True) for site in self._sites}
            )
            if self._now_s % _LINE_S == 0:
                say(self.line())
            due_s = max(due_s + ROUND_S / SPEED, time.monotonic())
            while not self._signals.stopping() and (left_s := due_s - time.monotonic()) > 0:
                self._signals.sleep(left_s)

    def _pass_on(self, records: Mapping[str, list[dict[str, object]]]) -> None:
        """Set all clocks, report jobs, and let each instance keep its schedule, sites last: they follow the others."""
        for instance in self._instances.values():
            instance.set_clock(self._now)
        for site in self._sites:
            site.report(records[site.name])
        for name, instance in self._instances.items():
            for failure in instance.request("keep_schedule"):
                say(f"{name}: {failure}")

    def welcome(self) -> str:
        rows = [f"  {self.address(name):36} {text}" for name, text in _WHAT.items()]
        pages = [
            f"  {self.address(site.name)}policy/{POLICY}/convergence/?step=hour&level={site.uid_of(grid.PROJECT_ENTRY)}"
            for site in self._sites
        ]
        return "\n".join(
            [
                "\nThe demo is ready. One minute is one hour in it.",
                *rows,
                f"Sign in everywhere as admin, password {self._password}",
                f"Tokens for REST: {self._tokens_file}",
                "",
                "Until now jobs started in the order of their submission: ben and cara submitted most, and got most.",
                "From now on the sites start jobs by priority, so shares come to their targets within five minutes:",
                *pages,
                "Circles move to the line named fair as usage arrives; Play shows the hours before.",
                "Then change shares of the project or the VO, and see both sites follow. Ctrl-C removes everything.\n",
                "Each minute: share of the project's members at site-a | site-b, and their target.",
            ]
        )

    def address(self, name: str) -> str:
        """For browsers, which find names below localhost themselves: each instance needs a cookie of its own."""
        return f"http://{name}.localhost:{self._instances[name].port}/"

    def line(self) -> str:
        """Shares of the project's members, as each site has them."""
        shares = [site.shares() for site in self._sites]
        members = [
            f"{user} {' | '.join(f'{100 * of[user][1]:4.1f}' for of in shares)} ({100 * shares[0][user][0]:.0f} %)"
            for user in grid.PROJECT_MEMBERS
        ]
        return f"{self._now:%H:%M}  {'   '.join(members)}"


def _refuse_taken_port(name: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((definitions.HOST, port))
        except (OSError, OverflowError) as error:
            raise CannotStart(
                f"Port {port} of {name} can't be used ({error}): choose another first port, such as --port 8300."
            ) from error


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A private folder that is removed at the end of the block, and of this process."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))  # mode 0700
    cleaner = subprocess.Popen(
        definitions.python("-m", "apps.cli.demo.cleaner", str(folder)),
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield folder
    finally:
        if cleaner.stdin is not None:
            cleaner.stdin.close()
        cleaner.wait()


@contextlib.contextmanager
def _server(folder: Path, signals: Signals) -> Iterator[PostgresServer]:
    server = PostgresServer(folder, options=_DATABASE_OPTIONS)
    server.start(stopping=signals.stopping)
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def _instances(server: PostgresServer, folder: Path, ports: Mapping[str, int]) -> Iterator[dict[str, Instance]]:
    """Instances with a database each, not yet started."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
    allowed = ",".join(f"{definitions.HOST}:{port}" for port in ports.values())
    environment |= {
        "FAIRSHARE_TESTING": "1",  # so that the clock may be set
        "FAIRSHARE_OUTBOUND_ALLOW": allowed,
        "CELERY_BROKER_URL": "memory://",  # none: workers run what is due at a command
        "DJANGO_SETTINGS_MODULE": "fairshare_web.settings",
    }
    _migrate(environment | {"DATABASE_URL": _url(server, DATABASE), "FAIRSHARE_VAR": str(folder / "template")})
    instances = {}
    for name, port in ports.items():
        with server.connect("postgres") as connection:
            statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
            connection.execute(statement.format(sql.Identifier(name), sql.Identifier(DATABASE)))
        home = folder / name
        home.mkdir(mode=0o700)
        own = {
            "DATABASE_URL": _url(server, name),
            "FAIRSHARE_CLOCK": str(home / "clock"),
            "FAIRSHARE_ISSUER": f"{name}.example",
            "FAIRSHARE_SITE": name,
            "FAIRSHARE_ALLOWED_HOSTS": f"{definitions.HOST},{name}.localhost",
        }
        worker = "apps.cli.demo.start_worker"
        instances[name] = Instance(name, home=home, port=port, environment=environment | own, worker=worker)
    try:
        yield instances
    finally:
        for instance in instances.values():
            instance.close()


def _url(server: PostgresServer, database: str) -> str:
    return f"postgres://{USER}@{quote(str(server.sockets), safe='')}:5432/{database}"


def _migrate(environment: Mapping[str, str]) -> None:
    command = definitions.manage("migrate", "--no-input", "--verbosity", "0")
    done = subprocess.run(
        command,
        env=dict(environment),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        preexec_fn=dying_with_parent(signal.SIGKILL),
    )
    if done.returncode != 0:
        raise CannotStart(f"The tables can't be made: {done.stderr.strip()[-2000:]}")
