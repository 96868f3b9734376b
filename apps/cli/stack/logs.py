"""Logs of the stack's processes: private files, shown in the terminal as they grow."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

_LARGEST = 20 * 1024**2
_CHUNK = 256 * 1024
_OWN = 0o600


def open_private_log(path: Path) -> BinaryIO:
    """Open a log for appending, with mode 0600, which is also set for an existing file."""
    log = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _OWN), "ab")
    os.fchmod(log.fileno(), _OWN)
    return log


class LogEcho:
    """Copies new lines of a log file to the terminal, and rotates the file."""

    def __init__(self, path: Path, name: str, say: Callable[[str], None]) -> None:
        self.path = path
        self._prefix = f"{name:<8} | "
        self._say = say
        open_private_log(path).close()
        self._read = path.stat().st_size
        self._rest = b""

    def pump(self) -> None:
        size = self.path.stat().st_size
        if size < self._read:  # truncated from outside
            self._read = 0
        if size > self._read:
            with self.path.open("rb") as file:
                file.seek(max(self._read, size - _CHUNK))  # of very long output, only the end is printed
                text = self._rest + file.read(_CHUNK)
                self._read = file.tell()
            *lines, self._rest = text.split(b"\n")
            for line in lines:
                self._say(self._prefix + line.decode("utf-8", errors="replace").rstrip())
        if size > _LARGEST:
            self._rotate()

    def _rotate(self) -> None:
        """Copy the log to one older file and truncate it; writers append."""
        older = self.path.with_suffix(".log.1")
        open_private_log(older).close()
        shutil.copyfile(self.path, older)
        with self.path.open("r+b") as file:
            file.truncate(0)
        self._read = 0
