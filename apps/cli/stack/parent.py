"""A process that ends with the one that has started it, however that ends, so that there are no orphans.

On Linux the kernel ends it (PR_SET_PDEATHSIG), elsewhere a thread that watches the parent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
#: Environment variable of the supervisor's children: only they end with their parent.
SUPERVISED = "_FAIRSHARE_SUPERVISOR"
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def dying_with_parent(sig: signal.Signals) -> Callable[[], None]:
    """Function for a child to run between fork and exec, so that it gets the signal when its parent ends.

    The kernel sends the signal when the *thread* that forked ends: fork from the main thread.
    """
    parent = os.getpid()

    def tie() -> None:
        if _LIBC is not None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, int(sig), 0, 0, 0)
            if os.getppid() != parent:  # the parent died before the call above
                os._exit(1)

    return tie


def set_name(name: str) -> None:
    """What `top` and `ps -o comm` call this process, cut to fifteen bytes; nothing beside Linux."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def die_with_parent(parent_pid: int) -> None:
    """End this process when its parent ends. Does nothing outside the supervised stack."""
    if not os.environ.get(SUPERVISED):
        return
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent_pid:
            os._exit(1)
    else:
        threading.Thread(target=_watch, args=(parent_pid,), daemon=True, name="lifeline").start()


def _watch(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)
