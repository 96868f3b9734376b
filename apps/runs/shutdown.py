"""Whether the worker of this process has been asked to stop."""

from __future__ import annotations

import mmap

_stop_requested = mmap.mmap(-1, 1)  # shared with the processes of a pool, of which Celery tells its first one alone


class WorkerStops(Exception):
    """The worker is shutting down; committed steps stay, and a worker resumes the run from there."""


def request_stop() -> None:
    """Ask this worker to stop at its next step; called by a signal handler."""
    _stop_requested[0] = 1


def is_stopping() -> bool:
    return bool(_stop_requested[0])
