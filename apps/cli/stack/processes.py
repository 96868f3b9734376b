"""Processes of the stack: process table, end of children with their parent, and log files.

Children end with their parent, so that there are no orphans: on Linux by the kernel (PR_SET_PDEATHSIG), elsewhere by a
thread that watches the parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

# --- Table ------------------------------------------------------------------------------------------------------------
_PROC = Path("/proc")
CAN_SEE = (_PROC / "self" / "cwd").exists()


def pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()] if CAN_SEE else []


def name_of(pid: int) -> str:
    try:
        return (_PROC / str(pid) / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def working_in(directory: Path, name: str) -> list[int]:
    """Ids of running processes with this name prefix and working directory, such as those of a PostgreSQL server."""
    found = []
    for pid in pids():
        try:
            inside = os.readlink(_PROC / str(pid) / "cwd") == str(directory)
        except OSError:  # it has ended, is a zombie, or belongs to another user
            continue
        if inside and name_of(pid).startswith(name):
            found.append(pid)
    return found


def send(pid: int, sig: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, sig)


def wait_gone(remaining: Callable[[], list[int]], wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while remaining():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


# --- Parent -----------------------------------------------------------------------------------------------------------
_PR_SET_PDEATHSIG = 1
#: Environment variable of the supervisor's children: only they end with their parent.
SUPERVISED = "_FAIRSHARE_SUPERVISOR"
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def dying_with_parent(sig: signal.Signals) -> Callable[[], None]:
    """Function for a child to run between fork and exec, so that it gets the signal when its parent ends.

    The kernel sends the signal when the *thread* that forked ends: fork from the main thread.
    """
    parent = os.getpid()

    def tie() -> None:
        if _LIBC is not None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, int(sig), 0, 0, 0)
            if os.getppid() != parent:  # the parent died before the call above
                os._exit(1)

    return tie


def die_with_parent(parent_pid: int) -> None:
    """End this process when its parent ends. Does nothing outside the supervised stack."""
    if not os.environ.get(SUPERVISED):
        return
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent_pid:
            os._exit(1)
    else:
        threading.Thread(target=_watch, args=(parent_pid,), daemon=True, name="lifeline").start()


def _watch(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)


# --- Logs -------------------------------------------------------------------------------------------------------------
_LARGEST = 20 * 1024**2
_CHUNK = 256 * 1024
_OWN = 0o600


def open_private_log(path: Path) -> BinaryIO:
    """Open a log for appending, with mode 0600, which is also set for an existing file."""
    log = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _OWN), "ab")
    os.fchmod(log.fileno(), _OWN)
    return log


class LogEcho:
    """Copies new lines of a log file to the terminal, and rotates the file."""

    def __init__(self, path: Path, name: str, say: Callable[[str], None]) -> None:
        self.path = path
        self._prefix = f"{name:<8} | "
        self._say = say
        open_private_log(path).close()
        self._read = path.stat().st_size
        self._rest = b""

    def pump(self) -> None:
        size = self.path.stat().st_size
        if size < self._read:  # truncated from outside
            self._read = 0
        if size > self._read:
            with self.path.open("rb") as file:
                file.seek(max(self._read, size - _CHUNK))  # of very long output, only the end is printed
                text = self._rest + file.read(_CHUNK)
                self._read = file.tell()
            *lines, self._rest = text.split(b"\n")
            for line in lines:
                self._say(self._prefix + line.decode("utf-8", errors="replace").rstrip())
        if size > _LARGEST:
            self._rotate()

    def _rotate(self) -> None:
        """Copy the log to one older file and truncate it; writers append."""
        older = self.path.with_suffix(".log.1")
        open_private_log(older).close()
        shutil.copyfile(self.path, older)
        with self.path.open("r+b") as file:
            file.truncate(0)
        self._read = 0
