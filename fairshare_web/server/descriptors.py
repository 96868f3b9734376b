"""Spare descriptors of a web process, so that at its limit of open files a request is still answered.

Without one left, the server accepts no connection: a look-up would wait until a client that holds one goes away. Spare
ones are given back then, and each response closes its connection until there is room again.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time

log = logging.getLogger(__name__)
N_SPARE = 32
_CHECK_S = 0.1
_NONE_LEFT = (errno.EMFILE, errno.ENFILE)


class SpareDescriptors:
    def __init__(self) -> None:
        self._spare: list[int] = []
        self.is_short = False

    def start(self) -> None:
        """Check for ever, in a thread."""
        threading.Thread(target=self._watch, name="descriptors", daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.check()
            time.sleep(_CHECK_S)

    def check(self) -> None:
        """Give the spare ones back if there is no other left, and take them again when there is room."""
        is_full = not self._has_room(1 if self._spare else N_SPARE + 1)
        if is_full and not self.is_short:
            log.error(
                "This process is at its limit of open files. It closes each connection after its answer until files "
                "are free. Raise the limit (LimitNOFILE of the unit) and start it again."
            )
        elif self.is_short and not is_full:
            log.warning("This process has files to open again.")
        self.is_short = is_full
        if is_full:
            while self._spare:
                os.close(self._spare.pop())
        elif not self._spare:
            self._spare = _open(N_SPARE)

    def _has_room(self, n: int) -> bool:
        opened = _open(n)
        for descriptor in opened:
            os.close(descriptor)
        return len(opened) == n


def _open(n: int) -> list[int]:
    """So many descriptors, or as many as there are left."""
    opened: list[int] = []
    try:
        while len(opened) < n:
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        if error.errno not in _NONE_LEFT:
            raise
    return opened
