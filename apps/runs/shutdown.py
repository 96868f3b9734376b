"""Whether the worker of this process has been asked to stop."""

from __future__ import annotations

import threading

_stop_requested = threading.Event()


class WorkerStops(Exception):
    """The worker is shutting down; committed steps stay, and a worker resumes the run from there."""


def request_stop() -> None:
    """Ask this worker to stop at its next step; called by a signal handler."""
    _stop_requested.set()


def is_stopping() -> bool:
    return _stop_requested.is_set()
