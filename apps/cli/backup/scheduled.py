"""Backups by schedule: one a day in a folder, of which the newest are kept."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db import connection

from apps.cli.backup import programs
from apps.cli.backup.archive import check_recipient
from apps.cli.backup.making import backups_in, instant_of, make_backup, name_of, remove_old
from apps.core.disk_space import disk_full_message
from apps.core.errors import Invalid
from apps.core.private_dirs import PRIVATE
from apps.runs.backup_state import EVERY, note_failure, note_schedule, note_success

_LOCK = ".lock"


def back_up_when_due(*, at: datetime) -> Path | None:
    """Make a verified backup if the newest is a day old, and remove those that are no longer kept.

    Returns its path; None if none is due, another process makes one, or the site names no folder.

    Raises:
        Invalid, ProgramFailed, OSError: as `make_backup`; noted for monitoring. The next call tries again.
    """
    if not settings.FAIRSHARE_BACKUP_DIR:
        return None
    note_schedule(at)
    try:
        made, good_at = _back_up_when_due(at)
    except Exception as error:
        note_failure(disk_full_message(error) or str(error))
        raise
    if good_at is not None:
        note_success(good_at)
    return made


def _back_up_when_due(at: datetime) -> tuple[Path | None, datetime | None]:
    """The backup that was made, and the instant of the newest; None where another process makes one."""
    folder, recipient = Path(settings.FAIRSHARE_BACKUP_DIR), settings.FAIRSHARE_BACKUP_RECIPIENT
    folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)  # an existing one keeps its mode
    with _alone(folder) as is_alone:
        newest_at = newest_backup_at(folder, at)
        if not is_alone:
            return None, None
        if newest_at is not None and at - newest_at < EVERY:
            return None, newest_at
        made = make_backup(folder / name_of(at, is_encrypted=bool(recipient)), recipient=recipient, at=at)
        remove_old(folder, settings.FAIRSHARE_BACKUP_KEEP, at=at)
    return made.path, at


def try_schedule() -> None:
    """Try what the next backup needs: the recipient, the folder, and pg_dump of the server's version.

    Raises:
        Invalid, ProgramFailed: what is wrong, in a sentence.
    """
    check_recipient(settings.FAIRSHARE_BACKUP_RECIPIENT)
    folder = Path(settings.FAIRSHARE_BACKUP_DIR)
    above = next(path for path in (folder, *folder.parents) if path.exists())
    if not above.is_dir():
        raise Invalid(f"FAIRSHARE_BACKUP_DIR={folder} can't be written: {above} is no folder.")
    probe = above / f".fairshare-{secrets.token_hex(8)}"
    try:
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise Invalid(f"FAIRSHARE_BACKUP_DIR={folder} can't be written: {error.strerror}.") from error
    with connection.cursor() as cursor:
        server = int(cursor.connection.info.server_version) // 10_000
    programs.find_program("pg_dump", server=server)


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
