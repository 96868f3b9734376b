"""Places at which a test may kill this process: FAULT="usage.ingest.after_copy:kill[:N]", at the N-th passing."""

from __future__ import annotations

import os
import signal
from collections import Counter

from django.conf import settings

VARIABLE = "FAULT"
_passed: Counter[str] = Counter()


class InjectedFault(RuntimeError):
    """What a place raises when a test asks for `:raise`."""


def fault_point(place: str) -> None:
    """Does nothing, unless this is a test that named this place."""
    if not settings.TESTING:
        return
    named, _, rest = os.environ.get(VARIABLE, "").partition(":")
    if named != place:
        return
    _passed[place] += 1
    deed, _, time = rest.partition(":")
    if _passed[place] != int(time or 1):
        return
    if deed == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if deed == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if deed == "raise":
        raise InjectedFault(place)
