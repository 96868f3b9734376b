"""Whether this worker was asked to stop: it claims nothing more, and hands a long run back between two steps."""

from __future__ import annotations

import threading

_asked = threading.Event()


class WorkerStops(Exception):
    """What was committed stays; another worker, or this one after its restart, goes on from there."""


def ask_to_stop() -> None:
    """Called by a signal handler."""
    _asked.set()


def is_stopping() -> bool:
    return _asked.is_set()
