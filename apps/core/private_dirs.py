"""Directories that only this user can enter. Imported by the settings: without Django."""

from __future__ import annotations

import os
from pathlib import Path

PRIVATE = 0o700  # mode of a directory


class InsecureDirectory(Exception):
    """A directory that must be private belongs to another user."""


def private_dir(path: Path) -> Path:
    """Make a directory that only this user can enter; fail if another user owns it."""
    path.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    status = path.lstat()
    if path.is_symlink() or status.st_uid != os.geteuid():
        raise InsecureDirectory(f"{path} belongs to another user: remove it, or set FAIRSHARE_VAR to another folder.")
    if status.st_mode & 0o777 != PRIVATE:
        path.chmod(PRIVATE)
    return path
