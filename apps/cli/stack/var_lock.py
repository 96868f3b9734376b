"""One stack at a time works with a folder of data."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from apps.core.private_dirs import private_dir


class VarLock:
    def __init__(self, var: Path, name: str) -> None:
        self.path = private_dir(var) / name
        self._file: IO[str] | None = None

    def take(self, *, shared: bool = False, wait: bool = False) -> bool:
        """Acquire the lock and return whether it is held. An exclusive holder writes its process id into the file."""
        file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "r+", encoding="ascii")
        operation = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
        try:
            fcntl.flock(file, operation)
        except BlockingIOError:
            file.close()
            return False
        if not shared:
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
        self._file = file
        return True

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def holder(self) -> str:
        with contextlib.suppress(OSError):
            return self.path.read_text(encoding="ascii").strip() or "unknown"
        return "unknown"


@contextlib.contextmanager
def held(lock: VarLock) -> Iterator[None]:
    """Release an acquired lock at the end of the block."""
    try:
        yield
    finally:
        lock.release()
