"""Fault points at which a test may kill this process: FAULT="usage.ingest.after_copy:kill[:N]", at the N-th passing.

FAULT_FILE names a file with that content, for processes that run already. The first process to act on it renames the
file (to its name with ".done"), so that it happens once.
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
    """What a place raises when a test asks for `:raise`."""


def fault_point(place: str) -> None:
    """Does nothing, unless this is a test that named this place."""
    if not settings.TESTING:
        return
    named, _, rest = (os.environ.get(VARIABLE) or _in_file()).partition(":")
    if named != place:
        return
    _passed[place] += 1
    action, _, time = rest.partition(":")
    if _passed[place] != int(time or 1) or not _is_first():
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if action == "raise":
        raise InjectedFault(place)


def _in_file() -> str:
    path = os.environ.get(FILE_VARIABLE)
    try:
        return Path(path).read_text(encoding="utf-8") if path else ""
    except FileNotFoundError:
        return ""


def _is_first() -> bool:
    """With a file: whether no other process has done it yet."""
    path = os.environ.get(FILE_VARIABLE)
    if not path or os.environ.get(VARIABLE):
        return True
    _passed.clear()  # the next file counts anew
    try:
        os.rename(path, path + DONE)
    except FileNotFoundError:
        return False
    return True
