"""Folders that may be watched, and files in them opened so that nothing can be put in their place."""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import IO, NamedTuple

from django.conf import settings

from apps.core.errors import Invalid

MOST_FILES = 10_000
_UNFINISHED = (".tmp", ".part", ".partial", ".filepart", ".swp", "~")


class Found(NamedTuple):
    """A regular file of a folder as it lies there."""

    path: Path
    inode: int
    n_bytes: int
    mtime_ns: int

    @property
    def state(self) -> list[int]:
        return [self.inode, self.n_bytes, self.mtime_ns]


def allowed_folder(name: str) -> Path:
    """
    Raises:
        Invalid: it isn't below a folder that the operator named, or isn't there.
    """
    roots = [Path(root).resolve() for root in settings.FAIRSHARE_COLLECT_FOLDERS]
    path = Path(name)
    if not path.is_absolute():
        raise Invalid("Give the whole path of the folder, beginning with /.", code="folder_not_allowed")
    real = path.resolve()
    if not any(real == root or root in real.parents for root in roots):
        where = ", ".join(settings.FAIRSHARE_COLLECT_FOLDERS) or "none so far"
        message = f"Folders must be below those in FAIRSHARE_COLLECT_FOLDERS ({where})."
        raise Invalid(message, code="folder_not_allowed")
    if not os.path.isdir(real):
        raise Invalid(f"There is no folder {name}, or it can't be read.", code="no_folder")
    return real


def files_of(folder: Path, wanted: Callable[[str, int], bool]) -> list[Found]:
    """Regular files, the oldest first; without hidden ones, and those that are still written under another name."""
    found = []
    with os.scandir(folder) as entries:
        for n, entry in enumerate(entries):
            if n >= MOST_FILES:
                raise Invalid(f"The folder holds over {MOST_FILES} files: move old ones away.", code="too_many_files")
            if not entry.is_file(follow_symlinks=False) or not wanted(entry.name, entry.inode()):
                continue
            status = entry.stat(follow_symlinks=False)
            found.append(Found(folder / entry.name, status.st_ino, status.st_size, status.st_mtime_ns))
    return sorted(found, key=lambda one: (one.mtime_ns, one.path.name))


def matches(name: str, pattern: str) -> bool:
    is_hidden = name.startswith(".") or name.endswith(_UNFINISHED)
    return not is_hidden and fnmatch.fnmatchcase(name, pattern)


def opened(path: Path) -> IO[bytes]:
    """
    Raises:
        OSError: it is gone, a link, or no regular file.
    """
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path.name} is no regular file")
    return file


def found_as(file: IO[bytes], path: Path) -> Found:
    status = os.fstat(file.fileno())
    return Found(path, status.st_ino, status.st_size, status.st_mtime_ns)
