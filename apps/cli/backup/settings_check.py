"""System checks: what a backup by schedule needs is right at the start, not at the first backup."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning

from apps.core.errors import DomainError

BACKUP_IDS = _RECIPIENT, _FOLDER, _PROGRAMS = "fairshare.E008", "fairshare.W006", "fairshare.W007"
_SEE = "See Back up and restore in docs/operate.md."


def check_backup_settings(**_more: Any) -> list[CheckMessage]:
    """Error for a recipient that is no key; warning for a folder where this process can't write: another host's may."""
    if not settings.FAIRSHARE_BACKUP_DIR:
        return []
    from apps.cli.backup.archive import check_recipient

    try:
        check_recipient(settings.FAIRSHARE_BACKUP_RECIPIENT)
    except DomainError as error:
        return [Error(f"FAIRSHARE_BACKUP_RECIPIENT: {error}", hint=_SEE, id=_RECIPIENT)]
    folder = Path(settings.FAIRSHARE_BACKUP_DIR)
    above = next(path for path in (folder, *folder.parents) if path.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        message = f"FAIRSHARE_BACKUP_DIR={folder} can't be written by this process."
        return [Warning(message, hint=f"Give it to the user of the workers. {_SEE}", id=_FOLDER)]
    return []


def check_backup_programs(databases: Sequence[str] | None = None, **_more: Any) -> list[CheckMessage]:
    """Warning where the database answers and pg_dump is missing or older than the server."""
    if not settings.FAIRSHARE_BACKUP_DIR or not databases:
        return []
    from apps.cli.backup.scheduled import try_schedule

    try:
        try_schedule()
    except DomainError as error:
        return [Warning(f"The next backup by schedule will fail: {error}", hint=_SEE, id=_PROGRAMS)]
    return []
