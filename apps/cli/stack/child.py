"""One supervised process: started, watched, started again after a growing pause, stopped with its whole group."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from apps.cli.stack.definitions import Definition
from apps.cli.stack.logs import open_private_log
from apps.cli.stack.parent_watch import dying_with_parent
from apps.cli.stack.paths import REPOSITORY

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
