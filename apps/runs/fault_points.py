"""Fault points, at which a test can kill this process: FAULT="usage.ingest.after_copy:kill[:N]" acts at the N-th
passing.

FAULT_FILE names a file with such a value, for processes that already run. The first process that acts on it renames the
file (adding ".done"), so that it happens once.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

from django.conf import settings

VARIABLE = "FAULT"
FILE_VARIABLE = "FAULT_FILE"
DONE = ".done"
_passed: Counter[str] = Counter()


class InjectedFault(RuntimeError):
    """Raised at a fault point for the action `raise`."""


def fault_point(name: str) -> None:
    """Kill, stop or raise here, if a test named this fault point; otherwise do nothing."""
    if not settings.TESTING:
        return
    named, _, rest = (os.environ.get(VARIABLE) or _in_file()).partition(":")
    if named != name:
        return
    _passed[name] += 1
    action, _, time = rest.partition(":")
    if _passed[name] != int(time or 1) or not _is_first():
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if action == "raise":
        raise InjectedFault(name)


def _in_file() -> str:
    path = os.environ.get(FILE_VARIABLE)
    try:
        return Path(path).read_text(encoding="utf-8") if path else ""
    except FileNotFoundError:
        return ""


def _is_first() -> bool:
    """Whether no other process has acted on the fault file yet."""
    path = os.environ.get(FILE_VARIABLE)
    if not path or os.environ.get(VARIABLE):
        return True
    _passed.clear()  # the next file counts from 1
    try:
        os.rename(path, path + DONE)
    except FileNotFoundError:
        return False
    return True
