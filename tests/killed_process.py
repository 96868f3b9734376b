"""Work in a process that a fault point kills (`apps/runs/fault_points.py`), as a worker of its own would die."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable

from django.db import connections

from apps.core import clock
from apps.runs import fault_points
from apps.runs.services import work_due_runs


def work_all() -> int:
    return work_due_runs(clock=clock.now)


def work_until_killed(work: Callable[[], object], *, fault: str) -> None:
    """Run `work` in a child process, which has to die of SIGKILL at the fault point `fault` ("place:kill[:passing]").

    The child is a fork with connections of its own: it starts at once, where a new interpreter would load everything
    again. For tests that commit, because it sees nothing of an open transaction.
    """
    connections.close_all()  # parent and child would talk through one socket
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _work_and_end(work, fault)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"{fault}: the process ended with {os.waitstatus_to_exitcode(status)}"
    assert os.WTERMSIG(status) == signal.SIGKILL


def _work_and_end(work: Callable[[], object], fault: str) -> None:
    """Never returns: what pytest does at the end of a process is the parent's."""
    status = 1
    try:
        for inherited in connections.all(initialized_only=True):
            inherited.connection = None  # where a browser runs, the parent's thread closed another one of this name
        os.environ[fault_points.VARIABLE] = fault
        fault_points._passed.clear()
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)
