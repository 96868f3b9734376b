"""An instance of a grid on loopback: its web server, and a worker that gets its commands over a pipe, because the clock
of the whole is that of the process that started them. Each ends with that process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from apps.cli.stack import definitions
from apps.cli.stack.parent import dying_with_parent
from apps.core.code_paths import REPOSITORY

PATIENCE_S = 120.0  # for a start, on cores that others use as well


class Failed(RuntimeError):
    """An instance refused a command, or has ended; with the code of the product's own error."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class Instance:
    """One authority with a database, a clock, a web server and a worker of its own."""

    def __init__(self, name: str, *, home: Path, port: int, environment: Mapping[str, str], worker: str) -> None:
        """environment: with the settings of the instance. worker: the module that is its worker."""
        self.name = name
        self.port = port
        self.clock = home / "clock"
        self.log = home / "log"
        self.clock_is_off = timedelta()
        self.environment = {**environment, **definitions.listening(home, port)}
        self._worker_module = worker
        self._web: subprocess.Popen[bytes] | None = None
        self._worker: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def issuer(self) -> str:
        return f"{self.name}.example"

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
                [sys.executable, "-m", self._worker_module],
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

    def await_web(self, *, stopping: Callable[[], bool] = lambda: False) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self._answers() and not stopping():
            if self._web is None or self._web.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"{self.name} doesn't serve:\n{self._log_end()}")
            time.sleep(0.1)  # its start is waited for, no outcome

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/healthz", timeout=5) as answer:  # noqa: S310 - our own
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

    def request(self, do: str, **more: Any) -> Any:
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
