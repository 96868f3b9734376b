"""Keeps the stack up: starts in order, restarts what dies, stops in order, leaves nothing behind.

Children die with this process whatever it dies of (`processes.py`), and theirs with them.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Protocol

from apps.cli.stack.paths import REPOSITORY
from apps.cli.stack.postgres import CannotStart, PostgresServer
from apps.cli.stack.processes import SUPERVISED, LogEcho, dying_with_parent, open_private_log

# --- Definitions ------------------------------------------------------------------------------------------------------
HOST = "127.0.0.1"  # the first run is private; a reverse proxy serves the world
# Django's checks are made once a start, in `prepare`; every worker would repeat them.
_CELERY = ("-m", "celery", "--quiet", "--skip-checks", "-A", "fairshare_web")
_WORKERS = 2  # a long import leaves one for recomputes
_CONNECTIONS = 4096  # at once; idle ones and those with slow bodies cost a file and no thread
_HEAD_MS = 10_000  # for the head of a request
STOP_S = 25  # for requests that are being answered when the stack is asked to stop


@dataclass(frozen=True, slots=True)
class Definition:
    name: str
    command: tuple[str, ...]


def environment(var: Path, port: int) -> Mapping[str, str]:
    return {
        **os.environ,
        "FAIRSHARE_VAR": str(var),
        "FAIRSHARE_PORT": str(port),
        "PYTHONUNBUFFERED": "1",
        SUPERVISED: str(os.getpid()),
    }


def python(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, *arguments)


def manage(*arguments: str) -> tuple[str, ...]:
    return python(str(REPOSITORY / "manage.py"), *arguments)


def web(port: int, host: str = HOST) -> Definition:
    # ASGI without lifespan: what reads bodies under a deadline is ours (`fairshare_web.server`). HTTP/1 alone.
    command = python("-m", "granian", "--interface", "asginl", "--host", host, "--port", str(port), "--no-ws")
    command += ("--http", "1", "--http1-header-read-timeout", str(_HEAD_MS))
    command += ("--backlog", str(_CONNECTIONS), "--backpressure", str(_CONNECTIONS))
    command += ("--workers", "1", "--respawn-failed-workers", "--workers-kill-timeout", str(STOP_S))
    return Definition("web", (*command, "--log-level", "error", "fairshare_web.asgi:application"))


def workers(port: int) -> list[Definition]:
    return [worker(f"worker-{number}", f"worker-{number}-{port}@%h") for number in range(1, _WORKERS + 1)]


def worker(name: str, node: str) -> Definition:
    """A single process, not a pool: a pool process killed while it holds the queue's lock stops all the others."""
    # Gossip, mingling and heartbeats would fill the file broker with useless messages.
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
    return Definition(name, python(*_CELERY, "worker", "--loglevel", "WARNING", "--pool", "solo", *quiet, "-n", node))


def bell() -> Definition:
    """Wakes the running workers: one takes over a dead one's work before that one is back."""
    code = "from fairshare_web.celery import app; app.send_task('apps.runs.tasks.work_runs', ignore_result=True)"
    return Definition("bell", python("-c", code))


def beat() -> Definition:
    # The schedule is in the database, so there is no file and no second beat to guard against but our own lock.
    command = python(*_CELERY, "beat", "--loglevel", "WARNING", "--pidfile=", "--max-interval", "5")
    return Definition("beat", command)


# --- One process ------------------------------------------------------------------------------------------------------
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 15.0
_HEALTHY_S = 30.0  # a process that ran this long restarts without a pause


class Program(Protocol):
    """How one kind of child is started and stopped."""

    name: str

    def launch(self) -> subprocess.Popen[bytes]: ...

    def ask_to_stop(self, process: subprocess.Popen[bytes]) -> None: ...

    def make_stop(self, process: subprocess.Popen[bytes]) -> None: ...

    def clean_up(self, process: subprocess.Popen[bytes]) -> None: ...


class GroupProgram:
    """A program in a session of its own, so that its whole process group can be ended."""

    def __init__(self, definition: Definition, environment: Mapping[str, str], log: Path) -> None:
        self.name = definition.name
        self._command = definition.command
        self._environment = dict(environment)
        self._log = log

    def launch(self) -> subprocess.Popen[bytes]:
        with open_private_log(self._log) as log:
            return subprocess.Popen(
                self._command,
                env=self._environment,
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=log,  # a file, not a pipe: a stuck terminal must not stop a worker
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=dying_with_parent(signal.SIGKILL),
            )

    def ask_to_stop(self, process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)

    def make_stop(self, process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)

    def clean_up(self, process: subprocess.Popen[bytes]) -> None:
        """Called before the dead leader is reaped: until then its number can't be another process group's."""
        self.make_stop(process)


class Child:
    def __init__(
        self, program: Program, report: Callable[[str], None], buried: Callable[[], None] = lambda: None
    ) -> None:
        """buried: called when the process has died and is reaped, not when it was asked to stop."""
        self.program = program
        self._report = report
        self._buried = buried
        self.process: subprocess.Popen[bytes] | None = None
        self._failures = 0
        self._started_at = 0.0
        self._start_at = 0.0

    def adopt(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._started_at = time.monotonic()

    def tend(self) -> None:
        """Start what is due, notice what died."""
        if self.process is None:
            if time.monotonic() >= self._start_at:
                self._start()
        elif has_ended(self.process):
            self._bury(self.process)

    def _start(self) -> None:
        try:
            self.adopt(self.program.launch())
        except Exception as error:  # whatever keeps it from starting may pass: disk full, out of processes
            self._report(f"{self.program.name} can't start: {error}")
            self._postpone()

    def _bury(self, process: subprocess.Popen[bytes]) -> None:
        self.program.clean_up(process)
        status = process.wait()
        self.process = None
        if time.monotonic() - self._started_at > _HEALTHY_S:
            self._failures = 0
        pause_s = self._postpone()
        self._report(f"{self.program.name} ended ({_describe(status)}); starting it again in {pause_s:.1f} s")
        self._buried()

    def _postpone(self) -> float:
        pause_s: float = min(_FIRST_PAUSE_S * 2**self._failures, _LONGEST_PAUSE_S)
        self._failures += 1
        self._start_at = time.monotonic() + pause_s
        return pause_s

    def ask_to_stop(self) -> None:
        if self.process is not None:
            self.program.ask_to_stop(self.process)

    def is_gone(self) -> bool:
        return self.process is None or has_ended(self.process)

    def finish(self) -> None:
        """End what didn't end when asked, its group included, and reap it."""
        if self.process is not None:
            self.program.make_stop(self.process)
            self.process.wait()
            self.process = None


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Without reaping it, where the system can check first."""
    if process.returncode is not None:
        return True
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _describe(status: int) -> str:
    if status >= 0:
        return f"status {status}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-status).name
    return f"signal {-status}"


# --- All of them ------------------------------------------------------------------------------------------------------
_ROUND_S = 0.5  # a death and a signal wake the loop at once; the round is for logs and pauses
STOPPING_S = STOP_S + 3.0  # the web server ends its own worker before
_STARTING_S = 0.1  # a round while something has yet to start


def say(line: str) -> None:
    """A closed terminal is no reason to stop serving."""
    with contextlib.suppress(OSError, ValueError):
        print(line, flush=True)


class PostgresProgram:
    """The database as one of the children: stopped fast, cleaned up by its launcher."""

    name = "postgres"

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    def launch(self) -> subprocess.Popen[bytes]:
        return self._server.launch()

    def ask_to_stop(self, process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)

    def make_stop(self, process: subprocess.Popen[bytes]) -> None:
        self._server.stop()

    def clean_up(self, process: subprocess.Popen[bytes]) -> None:
        """The launcher ends stray backends before it starts the next server."""


class Signals:
    """SIGINT, SIGTERM and SIGHUP ask to stop, a second one to hurry; SIGCHLD only wakes the loop."""

    def __init__(self) -> None:
        self.received = 0
        self._read, self._write = socket.socketpair()

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        self._read.setblocking(False)
        self._write.setblocking(False)
        stops = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup means: stay
            stops.append(signal.SIGHUP)
        before = {sig: signal.signal(sig, self._stop) for sig in stops}
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        wakeup = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            for sig, handler in before.items():
                signal.signal(sig, handler)
            self._read.close()
            self._write.close()

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self.received += 1

    def stopping(self) -> bool:
        return self.received > 0

    def sleep(self, seconds: float) -> None:
        if select.select([self._read], [], [], seconds)[0]:
            with contextlib.suppress(BlockingIOError):
                self._read.recv(4096)


class Supervisor:
    def __init__(self, signals: Signals, echoes: Sequence[LogEcho]) -> None:
        self.signals = signals
        self._echoes = list(echoes)
        self._database: Child | None = None
        self._children: list[Child] = []
        self._ringing: list[subprocess.Popen[bytes]] = []

    def add_database(self, server: PostgresServer) -> None:
        """A running server becomes a child like any other: it too is started again when it dies."""
        if server.process is None:
            raise CannotStart("The database was not started.")
        self._database = Child(PostgresProgram(server), _report)
        self._database.adopt(server.process)

    def add(self, program: Program, *, bell: Program | None = None) -> None:
        """bell: what is run once whenever the program has died."""
        self._children.append(Child(program, _report, lambda: None if bell is None else self._ring(bell)))

    def _ring(self, bell: Program) -> None:
        with contextlib.suppress(OSError):  # out of processes: beat rings, a few seconds later
            self._ringing.append(bell.launch())

    def _reap_bells(self) -> None:
        self._ringing = [process for process in self._ringing if process.poll() is None]

    def run_once(self, command: Sequence[str], environment: dict[str, str]) -> None:
        """A step before the children start; a stop request ends it too."""
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=dying_with_parent(signal.SIGKILL),
        )
        while not has_ended(process):
            if self.signals.stopping():
                process.terminate()
                break
            self._tend_database()
            self.signals.sleep(_ROUND_S)
        if process.wait() != 0 and not self.signals.stopping():
            raise CannotStart("Preparing the database failed; the lines above say where.")

    def run(self, when_ready: Callable[[], bool]) -> None:
        """Until a stop is requested. `when_ready` is called each round until it returns True."""
        is_ready = False
        while not self.signals.stopping():
            self._tend_database()
            for child in self._children:
                child.tend()
            self._reap_bells()
            self._pump()
            is_ready = is_ready or when_ready()
            is_starting = not is_ready or any(child.process is None for child in self._children)
            self.signals.sleep(_STARTING_S if is_starting else _ROUND_S)

    def _tend_database(self) -> None:
        if self._database is not None:
            self._database.tend()

    def stop(self) -> None:
        """Beat, worker and web together, then the database they write to."""
        if self._children:
            say("Stopping …")
        for child in self._children:
            child.ask_to_stop()
        hurry = self.signals.received + 1  # one more signal than so far
        deadline = time.monotonic() + STOPPING_S
        while any(not child.is_gone() for child in self._children):
            if time.monotonic() > deadline or self.signals.received >= hurry:
                break
            self.signals.sleep(0.1)
        for child in self._children:
            child.finish()
        for process in self._ringing:
            process.kill()
            process.wait()
        if self._database is not None:
            self._database.finish()
        self._pump()

    def _pump(self) -> None:
        for echo in self._echoes:
            with contextlib.suppress(OSError):
                echo.pump()


def _report(line: str) -> None:
    say(f"{'stack':<8} | {line}")
