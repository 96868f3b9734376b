"""Full disks: the folders of the service that are on one, and messages for errors caused by them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_DATABASE_NO_ROOM = "53100"  # PostgreSQL's disk_full
_MB = 1024**2
_LEAST_FREE_DISK_BYTES = 100 * _MB
_MOST_NEEDED = 1024 * _MB
_LEAST_FREE_DISK_PART = 0.01


@dataclass(frozen=True, slots=True)
class FullDisk:
    """A disk that is full or nearly so, named by the first folder of the service on it."""

    path: str
    free_bytes: int

    @property
    def free_mb(self) -> int:
        return self.free_bytes // _MB


def full_disks() -> list[FullDisk]:
    """Disks with less than 100 MB free, or with less than 1 % and less than 1 GB free."""
    disks: dict[int, FullDisk] = {}
    for path in _folders():
        try:
            disk, device = os.statvfs(path), path.stat().st_dev
        except OSError:  # not created yet
            continue
        total, free = disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
        if free < max(_LEAST_FREE_DISK_BYTES, min(_MOST_NEEDED, total * _LEAST_FREE_DISK_PART)):
            disks.setdefault(device, FullDisk(str(path), free))
    return list(disks.values())


def disk_full_message(error: BaseException | None) -> str:
    """Message for an error that a full disk may have caused; "" for all others."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            return _message(str(error.filename or settings.VAR))
        if getattr(error, "sqlstate", None) == _DATABASE_NO_ROOM:
            is_own = settings.FAIRSHARE_EMBEDDED_DATABASE
            return _message(str(Path(settings.VAR) / "pg") if is_own else "the database server")
        error = error.__cause__ or error.__context__
    return ""


def _message(path: str) -> str:
    return f"No room is left on the disk of {path}. Free some; nothing was stored half."


def _folders() -> Iterator[Path]:
    var = Path(settings.VAR)
    yield var
    for name in ("pg", "pg/pg_wal", "log", "uploads", "snapshots", "trees"):
        yield var / name
    yield Path(settings.FILE_UPLOAD_TEMP_DIR)
