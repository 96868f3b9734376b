"""Backups by schedule: one a day in a folder, of which the newest are kept."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings

from apps.cli.backup.making import backups_in, instant_of, make_backup, name_of, remove_old
from apps.core.private_dirs import PRIVATE

EVERY = timedelta(days=1)
LATE_AFTER = 2 * EVERY  # the second in a row has failed by then
_LOCK = ".lock"


def back_up_when_due(*, at: datetime) -> Path | None:
    """Make a verified backup if the newest is a day old, and remove those that are no longer kept.

    Returns its path; None if none is due, another process makes one, or the site names no folder.

    Raises:
        Invalid, ProgramFailed, OSError: as `make_backup`. The next call tries again.
    """
    if not settings.FAIRSHARE_BACKUP_DIR:
        return None
    folder, recipient = Path(settings.FAIRSHARE_BACKUP_DIR), settings.FAIRSHARE_BACKUP_RECIPIENT
    folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)  # an existing one keeps its mode
    with _alone(folder) as is_alone:
        newest_at = newest_backup_at(folder, at)
        if not is_alone or (newest_at is not None and at - newest_at < EVERY):
            return None
        made = make_backup(folder / name_of(at, is_encrypted=bool(recipient)), recipient=recipient, at=at)
        remove_old(folder, settings.FAIRSHARE_BACKUP_KEEP, at=at)
    return made.path


def newest_backup_at(folder: Path, at: datetime) -> datetime | None:
    """Instant of the newest backup in a folder."""
    made = backups_in(folder, at=at) if folder.is_dir() else []
    return instant_of(made[-1]) if made else None


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Whether no other process is within the block; the lock of a process ends with it."""
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(lock)
