"""The backup before an upgrade of an embedded instance: with it the former release works again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError

from apps.cli.backup.making import make_backup, name_of, remove_old
from apps.cli.stack.migration import is_upgrade
from apps.cli.stack.paths import write_once
from apps.core.disk_space import disk_full_message
from apps.core.errors import DomainError, Unavailable
from apps.core.private_dirs import private_dir

FOLDER = "backups"
KEPT = 3
UNFINISHED = "upgrade.unfinished"  # in FAIRSHARE_VAR, from the backup to the last migration: the backup's name


class BackupFailed(Unavailable):
    """There is no backup, so nothing was upgraded."""

    code = "backup_failed"


def back_up_before_upgrade(*, at: datetime, say: Callable[[str], object]) -> None:
    """Make a verified backup in FAIRSHARE_VAR/backups if migrations are pending, and keep the last three.

    An interrupted upgrade keeps the backup that it has: a later one wouldn't be of the former release.

    Raises:
        BackupFailed: with the reason, and the option that leaves it out.
    """
    if not is_upgrade():
        return
    var = Path(settings.VAR)
    folder, unfinished = private_dir(var / FOLDER), var / UNFINISHED
    if unfinished.exists():
        former = folder / unfinished.read_text(encoding="utf-8").strip()
        if former.is_file():
            say(f"Going on with an interrupted upgrade; the backup before it: {former}")
            return
        unfinished.unlink()
    try:
        made = make_backup(folder / name_of(at, is_encrypted=False), at=at)
        remove_old(folder, KEPT, at=at)
    except (DomainError, DatabaseError, OSError) as error:
        reason = disk_full_message(error) or str(error)
        raise BackupFailed(
            f"The backup before the upgrade failed: {reason} "
            "Nothing was upgraded. `up --no-backup` goes on without one."
        ) from error
    write_once(unfinished, f"{made.path.name}\n")
    say(f"Backed up before the upgrade, {made.n_bytes:,} bytes, verified: {made.path}")


def end_upgrade() -> None:
    (Path(settings.VAR) / UNFINISHED).unlink(missing_ok=True)
