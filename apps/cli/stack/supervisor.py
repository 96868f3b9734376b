"""Keeps the stack up: starts in order, restarts what dies, stops in order, leaves nothing behind.

Children die with this process whatever it dies of (`lifeline.py`), and theirs with them.
"""

from __future__ import annotations

import contextlib
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from apps.cli.stack.child import Child, Program, has_ended
from apps.cli.stack.definitions import STOP_S
from apps.cli.stack.logs import LogEcho
from apps.cli.stack.parent_watch import dying_with_parent
from apps.cli.stack.postgres import CannotStart, PostgresServer

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
