"""Files and folders that a backup or restore writes until it ends, and the removal of what killed ones left.

A draft is locked for as long as its process lives. What isn't locked is abandoned: it has half a backup, links that
keep uploads on the disk, or the site's keys.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from apps.cli.stack.processes import started_at
from apps.cli.stack.var_lock import VarLock, held
from apps.core.private_dirs import private_dir

BACKUP_FOLDER, RESTORE_FOLDER = ".backup-", ".restore-"
_LOCK = "drafts.lock"


@contextlib.contextmanager
def draft_folder(var: Path, prefix: str) -> Iterator[Path]:
    """A private folder in FAIRSHARE_VAR as long as the block lasts. Those of killed processes are removed before."""
    lock = VarLock(private_dir(var), _LOCK)
    lock.take(wait=True)
    with held(lock):
        for each in abandoned_folders(var):
            shutil.rmtree(each, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(dir=var, prefix=prefix))
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def abandoned_folders(var: Path) -> Sequence[Path]:
    folders = [path for prefix in (BACKUP_FOLDER, RESTORE_FOLDER) for path in sorted(var.glob(f"{prefix}*"))]
    return [path for path in folders if path.is_dir() and not path.is_symlink() and not _is_locked(path)]


def remove_abandoned_folders(var: Path) -> None:
    """At a start: keys in plain don't wait for the next backup."""
    if var.is_dir() and abandoned_folders(var):
        with draft_folder(var, BACKUP_FOLDER):
            pass


@contextlib.contextmanager
def draft_file(path: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """A new private file beside `path`, removed at the end unless it was renamed."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with os.fdopen(descriptor, "wb") as file:
            yield draft, file
    except OSError as error:
        error.filename = error.filename or str(path)  # an error of writing names no file
        raise
    finally:
        draft.unlink(missing_ok=True)


def abandoned_files(folder: Path, name: re.Pattern[str]) -> Sequence[Path]:
    """Drafts in a folder of backups whose names fit. Their last part is the id of the process that wrote."""
    drafts = []
    for path in sorted(folder.glob(".*")):
        shown, _, pid = path.name[1:].rpartition(".")
        is_draft = pid.isdigit() and name.fullmatch(shown) is not None and path.is_file() and not path.is_symlink()
        if is_draft and not _is_locked(path) and not _is_written_by(int(pid), path):
            drafts.append(path)
    return drafts


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:  # gone, or of another user
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _is_written_by(pid: int, path: Path) -> bool:
    """Whether a process of a release without locks may write it: it has lived since before the last write."""
    began_at = started_at(pid)
    try:
        return began_at is not None and began_at <= path.stat().st_mtime + 1.0
    except FileNotFoundError:
        return True
