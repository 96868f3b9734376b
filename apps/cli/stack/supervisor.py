"""Supervisor of the stack: starts processes in order, restarts those that end, and stops all in order.

Children and their children end with this process (`processes.py`).
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
from pathlib import Path
from types import FrameType
from typing import Protocol

from apps.cli.stack.definitions import STOP_S, Definition
from apps.cli.stack.forking import CAN_FORK, Forked, fork_python
from apps.cli.stack.logs import LogEcho, open_private_log
from apps.cli.stack.parent import dying_with_parent
from apps.cli.stack.postgres import CannotStart, PostgresServer
from apps.core.code_paths import REPOSITORY

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 15.0
_HEALTHY_S = 30.0  # a process that ran this long restarts without a pause
_ROUND_S = 0.5  # interval for logs and pauses; signals and ended children wake the loop at once
STOPPING_S = STOP_S + 3.0  # longer than the web server needs
_STARTING_S = 0.1  # interval while a process has yet to start
Process = subprocess.Popen[bytes] | Forked


class Program(Protocol):
    """How a child process is started and stopped."""

    name: str

    def launch(self) -> Process: ...

    def ask_to_stop(self, process: Process) -> None: ...

    def make_stop(self, process: Process) -> None: ...

    def clean_up(self, process: Process) -> None: ...


class GroupProgram:
    """A program in its own session, so that its whole process group can be ended."""

    def __init__(self, definition: Definition, environment: Mapping[str, str], log: Path) -> None:
        self.name = definition.name
        self._command = definition.command
        self._environment = dict(environment)
        self._log = log

    def launch(self) -> Process:
        with open_private_log(self._log) as log:  # a file, not a pipe: a stuck terminal must not stop a worker
            return _start(self.name, self._command, self._environment, log.fileno())

    def ask_to_stop(self, process: Process) -> None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)

    def make_stop(self, process: Process) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)

    def clean_up(self, process: Process) -> None:
        """End the process group before its leader is reaped: until then, no other group can have its id."""
        self.make_stop(process)


def _start(name: str, command: Sequence[str], environment: Mapping[str, str], output: int | None = None) -> Process:
    """In a session of its own: a fork of this process, which has loaded the applications, where that is possible.

    output: descriptor that it writes to; None for this process's own.
    """
    if CAN_FORK and command[0] == sys.executable:
        return fork_python(command[1:], name=name, environment=environment, folder=REPOSITORY, output=output)
    return subprocess.Popen(
        command,
        env=environment,
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        preexec_fn=dying_with_parent(signal.SIGKILL),
    )


class Child:
    """A supervised process: started, restarted with increasing pauses, and stopped."""

    def __init__(
        self, program: Program, report: Callable[[str], None], on_end: Callable[[], None] = lambda: None
    ) -> None:
        """on_end: called when the process has ended by itself and is reaped."""
        self.program = program
        self._report = report
        self._on_end = on_end
        self.process: Process | None = None
        self._failures = 0
        self._started_at = 0.0
        self._start_at = 0.0

    def adopt(self, process: Process) -> None:
        self.process = process
        self._started_at = time.monotonic()

    def update(self) -> None:
        """Start the process if it is due, or handle its end."""
        if self.process is None:
            if time.monotonic() >= self._start_at:
                self._start()
        elif has_ended(self.process):
            self._reap(self.process)

    def _start(self) -> None:
        try:
            self.adopt(self.program.launch())
        except Exception as error:  # the cause may be temporary, such as a full disk
            self._report(f"{self.program.name} can't start: {error}")
            self._postpone()

    def _reap(self, process: Process) -> None:
        self.program.clean_up(process)
        status = process.wait()
        self.process = None
        if time.monotonic() - self._started_at > _HEALTHY_S:
            self._failures = 0
        pause_s = self._postpone()
        self._report(f"{self.program.name} ended ({_describe(status)}); starting it again in {pause_s:.1f} s")
        self._on_end()

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
        """End the process and its group by SIGKILL, and reap it."""
        if self.process is not None:
            self.program.make_stop(self.process)
            self.process.wait()
            self.process = None


def has_ended(process: Process) -> bool:
    """Whether the process has ended, if possible without reaping it."""
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


def say(line: str) -> None:
    """Print a line; a closed terminal is ignored."""
    with contextlib.suppress(OSError, ValueError):
        print(line, flush=True)


class PostgresProgram:
    """The embedded database as a supervised process."""

    name = "postgres"

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    def launch(self) -> Process:
        return self._server.launch()

    def ask_to_stop(self, process: Process) -> None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)

    def make_stop(self, process: Process) -> None:
        self._server.stop()

    def clean_up(self, process: Process) -> None:
        """Nothing: the launcher ends orphaned backends before it starts the next server."""


class Signals:
    """Signal handling: SIGINT, SIGTERM and SIGHUP stop the stack, a second one at once; SIGCHLD wakes the loop."""

    def __init__(self) -> None:
        self.received = 0
        self._read, self._write = socket.socketpair()

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        self._read.setblocking(False)
        self._write.setblocking(False)
        stops = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores SIGHUP
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
        self._ringing: list[Process] = []

    def add_database(self, server: PostgresServer) -> None:
        """Supervise a running server: it is restarted when it ends."""
        if server.process is None:
            raise CannotStart("The database was not started.")
        self._database = Child(PostgresProgram(server), _report)
        self._database.adopt(server.process)

    def add(self, program: Program, *, bell: Program | None = None) -> None:
        """Supervise a program. bell: run once each time the program has ended."""
        self._children.append(Child(program, _report, lambda: None if bell is None else self._ring(bell)))

    def _ring(self, bell: Program) -> None:
        with contextlib.suppress(OSError):  # no more processes: beat wakes workers some seconds later
            self._ringing.append(bell.launch())

    def run_once(self, program: Definition, environment: Mapping[str, str]) -> None:
        """Run a program before the children start; a stop request ends it."""
        process = _start(program.name, program.command, environment)
        while not has_ended(process):
            if self.signals.stopping():
                process.terminate()
                break
            self._tend_database()
            self.signals.sleep(_ROUND_S)
        if process.wait() != 0 and not self.signals.stopping():
            raise CannotStart("Preparing the site failed; see the lines above.")

    def run(self, when_ready: Callable[[], bool]) -> None:
        """Supervise until a stop is requested. `when_ready` is called each round until it returns True."""
        is_ready = False
        while not self.signals.stopping():
            self._tend_database()
            for child in self._children:
                child.update()
            self._ringing = [process for process in self._ringing if process.poll() is None]
            self._pump()
            is_ready = is_ready or when_ready()
            is_starting = not is_ready or any(child.process is None for child in self._children)
            self.signals.sleep(_STARTING_S if is_starting else _ROUND_S)

    def _tend_database(self) -> None:
        if self._database is not None:
            self._database.update()

    def stop(self) -> None:
        """Stop web, workers and beat together, and then the database."""
        if self._children:
            say("Stopping …")
        for child in self._children:
            child.ask_to_stop()
        hurry = self.signals.received + 1  # one more signal ends the wait
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
