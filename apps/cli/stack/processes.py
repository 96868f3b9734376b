"""The table of running processes, and how those of the stack are ended."""

from __future__ import annotations

import contextlib
import os
import re
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
    """Ids of running processes with this name prefix and working directory, such as those of a PostgreSQL server."""
    ids = []
    for pid in pids():
        try:
            inside = os.readlink(_PROC / str(pid) / "cwd") == str(directory)
        except OSError:  # it has ended, is a zombie, or belongs to another user
            continue
        if inside and name_of(pid).startswith(name):
            ids.append(pid)
    return ids


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


def started_at(pid: int) -> float | None:
    """When a running process began, in seconds since 1970; 0.0 where that can't be seen; None without one."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except (PermissionError, OverflowError):
        pass
    try:
        ticks = int((_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[19])
        booted = re.search(r"^btime (\d+)$", (_PROC / "stat").read_text(), re.MULTILINE)
    except OSError:
        return 0.0 if not CAN_SEE else None
    return int(booted[1]) + ticks / os.sysconf("SC_CLK_TCK") if booted else 0.0
