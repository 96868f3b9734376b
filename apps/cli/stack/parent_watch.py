"""Each process of the stack dies with its parent, so that none is orphaned.

On Linux the kernel does it (PR_SET_PDEATHSIG), whatever the parent died of. Elsewhere a thread watches the parent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
#: Set by the supervisor for its children: only below it does a grandchild tie itself to its parent.
SUPERVISED = "_FAIRSHARE_SUPERVISOR"
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def dying_with_parent(sig: signal.Signals) -> Callable[[], None]:
    """What a child runs between fork and exec, made before the fork so that the child only makes one call.

    The signal comes when the *thread* that forked ends: fork from the main thread.
    """
    parent = os.getpid()

    def tie() -> None:
        if _LIBC is not None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, int(sig), 0, 0, 0)
            if os.getppid() != parent:  # the parent died before the call above
                os._exit(1)

    return tie


def die_with_parent(parent_pid: int) -> None:
    """Tie this process to the parent it was forked by; nothing outside the supervised stack."""
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
