"""Which process holds a lease, and whether that process has ended: decidable on its own machine alone.

A holder is named by the boot of the kernel, the PID namespace, the process id and the process's start time. All four
together are never used twice, so a process id that was given to another process names another holder. Without /proc
there is no name, and the lease of a killed worker runs out.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_ENDED = frozenset("ZX")  # a zombie waits for its parent and does nothing any more


def own_holder() -> str:
    """The name of this process; "" where the system shows none."""
    return _holder_of(os.getpid())


@cache
def own_machine() -> str:
    """Boot and PID namespace, the part of a name that this process can judge about; "" where there is none."""
    try:
        if os.readlink(_PROC / "self") != str(os.getpid()):  # /proc of another namespace shows other processes
            return ""
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = os.readlink(_PROC / "self/ns/pid").strip("pid:[]")
    except OSError:
        return ""
    return f"{boot}:{namespace}:"


def has_ended(holder: str) -> bool:
    """Whether the process has surely ended. False for a holder of another machine, of which nothing is known."""
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
    found = _state_and_start(int(pid))
    return found is not None and (found[0] in _ENDED or found[1] != started)


@cache
def _holder_of(pid: int) -> str:
    found, machine = _state_and_start(pid), own_machine()
    return f"{machine}{pid}:{found[1]}" if machine and found else ""


def _state_and_start(pid: int) -> tuple[str, str] | None:
    """State and start time (clock ticks since boot) of a process; None where they can't be read."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold spaces
    return fields[0], fields[19]
