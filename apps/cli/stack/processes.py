"""What runs on this machine, read from /proc; elsewhere nothing is seen and PostgreSQL's own lock file decides."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

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
    """Living processes called `name` whose working directory it is: every process of a PostgreSQL server."""
    found = []
    for pid in pids():
        try:
            inside = os.readlink(_PROC / str(pid) / "cwd") == str(directory)
        except OSError:  # gone, a zombie, or another user's
            continue
        if inside and name_of(pid).startswith(name):
            found.append(pid)
    return found


def send(pid: int, sig: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, sig)


def wait_gone(remaining: Callable[[], list[int]], patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while remaining():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
