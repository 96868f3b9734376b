"""Backups by schedule: one a day in a folder, of which the newest are kept."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.conf import settings

from apps.cli.backup.making import NAME_FORM, backups_in, make_backup, name_of, remove_old
from apps.core.private_dirs import private_dir

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
    folder, recipient = private_dir(Path(settings.FAIRSHARE_BACKUP_DIR)), settings.FAIRSHARE_BACKUP_RECIPIENT
    with _alone(folder) as is_alone:
        newest_at = newest_backup_at(folder)
        if not is_alone or (newest_at is not None and at - newest_at < EVERY):
            return None
        made = make_backup(folder / name_of(at, is_encrypted=bool(recipient)), recipient=recipient, at=at)
        remove_old(folder, settings.FAIRSHARE_BACKUP_KEEP)
    return made.path


def newest_backup_at(folder: Path) -> datetime | None:
    """Instant of the newest backup in a folder, by its name."""
    made = backups_in(folder) if folder.is_dir() else []
    return datetime.strptime(made[-1].name.partition(".")[0], NAME_FORM).replace(tzinfo=UTC) if made else None


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
