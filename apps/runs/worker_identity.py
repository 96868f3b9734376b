"""Identify the process that holds a lease, and detect on its own machine that it has ended.

A holder is identified by the kernel's boot id, the PID namespace, the process id and the process's start time. The
combination is never reused, unlike the process id. Without /proc there is no identifier, and the lease of a killed
worker must expire.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_ENDED = frozenset("ZX")  # a zombie waits for its parent and does no more work


def own_holder() -> str:
    """Identifier of this process; empty if the system provides none."""
    return _holder_of(os.getpid())


@cache
def own_machine() -> str:
    """Boot id and PID namespace, which identify the machine; empty if the system provides none."""
    try:
        if os.readlink(_PROC / "self") != str(os.getpid()):  # /proc belongs to another namespace
            return ""
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = os.readlink(_PROC / "self/ns/pid").strip("pid:[]")
    except OSError:
        return ""
    return f"{boot}:{namespace}:"


def has_ended(holder: str) -> bool:
    """Whether the process has certainly ended. False for processes of other machines."""
    machine = own_machine()
    pid, _, started = holder.removeprefix(machine).partition(":")
    if not machine or not holder.startswith(machine) or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # it exists and belongs to another user
    process = _state_and_start(int(pid))
    return process is not None and (process[0] in _ENDED or process[1] != started)


@cache
def _holder_of(pid: int) -> str:
    process, machine = _state_and_start(pid), own_machine()
    return f"{machine}{pid}:{process[1]}" if machine and process else ""


def _state_and_start(pid: int) -> tuple[str, str] | None:
    """State and start time (clock ticks since boot) of a process; None if they can't be read."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the process name before it may contain spaces
    return fields[0], fields[19]
