"""A real stack in a directory of its own, and a view of its processes from outside."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg

from apps.cli.stack import processes
from apps.cli.stack.paths import socket_dir
from apps.cli.stack.postgres import DATABASE, PORT, USER
from apps.core.code_paths import REPOSITORY
from apps.core.site_keys import KEY_FILES
from tests.commands import run_manage

PATIENCE_S = 240.0  # two cores that are shared four times over
# Without compiled modules each of a stack's processes would start two seconds later.
_OF_THE_SUITE = (
    "FAIRSHARE_TESTING",
    "FAIRSHARE_CLOCK",
    "DATABASE_URL",
    "PYTEST_CURRENT_TEST",
    "PYTHONDONTWRITEBYTECODE",
)
_TOKEN = re.compile(rb"fsh_[0-9a-z]{12}_[0-9a-f]{8}|whsec_[A-Za-z0-9+/]{8}")


def eventually(
    condition: Callable[[], bool], what: str, within_s: float = PATIENCE_S, describe: Callable[[], str] = str
) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s:.0f} s: {what}\n{describe()}"
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    name: str
    command: str


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _parent(pid: int) -> int:
    status = _read(pid, "stat").rpartition(b")")[2].split()
    return int(status[1]) if status else 0


def copy_instance(var: Path, to: Path) -> None:
    """With owners and modes; static files, which are never written, as symbolic links."""
    kept = ("pg", "secret_key", "token_pepper", "pseudonym_key", "schema", "sign-ins", "started-empty")
    subprocess.run(["cp", "-a", *(var / name for name in kept), to], check=True)
    subprocess.run(["cp", "-as", var / "static", to], check=True)


class Stack:
    """`manage.py up` with its own FAIRSHARE_VAR and FAIRSHARE_PORT."""

    def __init__(
        self,
        *,
        prefix: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
        sample: bool = False,
        like: Path | None = None,
        place: Path | None = None,
    ) -> None:
        """like: the directory of a stopped instance, whose data and secrets this one begins with."""
        self._arguments = [] if sample else ["--no-sample"]
        self.var = Path(tempfile.mkdtemp(prefix="fairshare-faults-", dir=place))
        self.settings = dict(settings or {})
        self.secret_settings: dict[str, str] = {}  # values that no log may have, beside the instance's keys
        if like is not None:
            copy_instance(like, self.var)
            if sample:
                (self.var / "started-empty").unlink()
        self.port = free_port()
        self.output = self.var / "up.output"
        self._prefix = list(prefix)
        self.supervisor: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in _OF_THE_SUITE}
        return {
            **kept,
            "FAIRSHARE_VAR": str(self.var),
            "FAIRSHARE_PORT": str(self.port),
            "FAIRSHARE_SWEEP_S": "1",
            "FAIRSHARE_LEASE_S": "5",
            **self.settings,
        }

    def launch(self) -> subprocess.Popen[bytes]:
        command = [*self._prefix, sys.executable, str(REPOSITORY / "manage.py"), "up", *self._arguments]
        with self.output.open("wb") as output:
            self.supervisor = subprocess.Popen(
                command, cwd=REPOSITORY, env=self.environment, stdout=output, stderr=subprocess.STDOUT
            )
        return self.supervisor

    def start(self, within_s: float = PATIENCE_S) -> None:
        supervisor = self.launch()
        eventually(
            lambda: "Fairshare is ready" in self.output_text() or supervisor.poll() is not None,
            f"a ready stack in {self.var}",
            within_s,
        )
        assert supervisor.poll() is None, self.output_text()

    def output_text(self) -> str:
        return self.output.read_text(encoding="utf-8", errors="replace")

    def manage(self, *arguments: str, patience_s: float = PATIENCE_S) -> str:
        """What a command says, run beside the stack."""
        done = run_manage(*arguments, env=self.environment, text=True, timeout_s=patience_s)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, code: str) -> str:
        """What this Python prints in a process of the instance."""
        return self.manage("shell", "--no-imports", "-c", code)

    def signal(self, sig: signal.Signals) -> int:
        assert self.supervisor is not None
        self.supervisor.send_signal(sig)
        return self.supervisor.wait(60)

    def remove(self) -> None:
        """Whatever a failed test left: only processes of this directory."""
        if self.supervisor is not None and self.supervisor.poll() is None:
            self.supervisor.kill()
            self.supervisor.wait()
        processes.wait_gone(self.pids, 20.0)
        for pid in self.pids():
            processes.send(pid, signal.SIGKILL)
        found = self.secrets_in_logs()
        shutil.rmtree(self.var, ignore_errors=True)
        assert found == [], "secrets are in logs"

    def secrets_in_logs(self) -> list[tuple[str, str]]:
        """Each log that has a secret of the instance, with that secret's name."""
        keys = {name: self.var / name for name in KEY_FILES.values()}
        secrets = {name: path.read_bytes().strip() for name, path in keys.items() if path.exists()}
        secrets |= {name: value.encode() for name, value in self.secret_settings.items()}
        logs = [path for path in (self.output, *(self.var / "log").glob("*")) if path.exists()]
        found = [(log.name, name) for log in logs for name, value in secrets.items() if value in log.read_bytes()]
        return found + [(log.name, "a token") for log in logs if _TOKEN.search(log.read_bytes())]

    def pids(self) -> list[int]:
        """Living processes of this instance: by their environment, which those with a title of their own have
        overwritten, or as their children; PostgreSQL's by where they work."""
        marker = f"FAIRSHARE_VAR={self.var}".encode()
        parents = {pid: _parent(pid) for pid in processes.pids()}
        found = {pid for pid in parents if marker in _read(pid, "environ").split(b"\0")}
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        return sorted({*found, *processes.working_in(self.var / "pg", "postgres")})

    def processes(self) -> list[Process]:
        found = []
        for pid in self.pids():
            status = _read(pid, "stat").decode(errors="replace").rpartition(")")[2].split()
            if status and status[0] != "Z":
                command = _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")
                found.append(Process(pid, int(status[1]), processes.name_of(pid), command))
        return found

    def roles(self) -> dict[str, list[int]]:
        """Which process does what, by its name and its parent."""
        found = self.processes()
        assert self.supervisor is not None
        roles: dict[str, list[int]] = {"supervisor": [self.supervisor.pid]}
        for name in ("web", "worker", "outgoing", "beat", "postgres"):
            masters = [p.pid for p in found if p.parent == self.supervisor.pid and p.name.startswith(name)]
            roles[name] = masters
            roles[f"{name} child"] = [p.pid for p in found if p.parent in masters]
        backends = [p.pid for p in found if p.command.startswith(f"postgres: {USER} {DATABASE}")]
        roles["postgres backend"] = backends
        return roles

    def is_whole(self) -> bool:
        roles = self.roles()
        expected = ("web", "web child", "worker", "outgoing", "beat", "postgres", "postgres child")
        return all(roles[name] for name in expected) and len(roles["worker"]) == 2

    def answers(self, path: str = "readyz") -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(
            host=str(socket_dir(self.var)), port=PORT, user=USER, dbname=DATABASE, connect_timeout=2, autocommit=True
        )

    def leave_work(self) -> int:
        """A due run without a signal: beat has to notice it, the doorbell to ring, the worker to take it."""
        subject = f"policy:none-{uuid.uuid4().hex[:12]}"
        with self.connect() as session:
            row = session.execute(
                "INSERT INTO runs_run (kind, state, subject, arguments, due_at, fence, attempts, max_attempts,"
                " cancel_requested, progress_done, message, cursor, counts, result, error_code, error, created_at)"
                " VALUES ('recompute', 'queued', %s, '{}', now(), 0, 0, 1,"
                " false, 0, '', '{}', '{}', '{}', '', '', now())"
                " RETURNING id",
                [subject],
            ).fetchone()
        assert row is not None
        assert isinstance(row[0], int)
        return row[0]

    def was_worked(self, run_id: int) -> bool:
        try:
            with self.connect() as session:
                row = session.execute("SELECT attempts FROM runs_run WHERE id = %s", [run_id]).fetchone()
        except psycopg.OperationalError:
            return False
        assert row is not None, "a queued run vanished"
        return row[0] != 0

    def assert_works(self) -> None:
        """Every part does its job: pages are served, and due work is done."""
        eventually(self.is_whole, "all processes present", describe=self.described)
        eventually(self.answers, "/readyz says 200", describe=self.described)
        run_id = self.leave_work()
        eventually(lambda: self.was_worked(run_id), "beat and worker do what is due", describe=self.described)

    def described(self) -> str:
        """For the reader of a failure: who is there, who waits for what, and the last words."""
        workers = [each.pid for each in self.processes() if each.name.startswith(("worker", "outgoing"))]
        waits = {pid: _read(pid, "wchan").decode() for pid in workers}
        queue = sorted(path.name for path in (self.var / "broker" / "queue").glob("*"))
        return f"{self.roles()}\nwaiting {waits}\nqueue {len(queue)} {queue[-3:]}\n{self.output_text()[-2500:]}"
