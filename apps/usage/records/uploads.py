"""Store uploaded files in var/uploads, readable by this service only, and unpack them while reading."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple
from uuid import uuid4

from django.conf import settings

from apps.accounts.clock_watch import believed
from apps.core.errors import Invalid, TooLarge
from apps.usage.records.packed_files import HEAD, PackingCheck, open_packed, packing_check, refuse_archives

KEPT = timedelta(hours=24)  # after a dry run, for its confirmation
_READ = 256 * 1024


class StoredFile(NamedTuple):
    """A completely stored file: name below var/uploads, sizes, digest, and the unpacked first bytes."""

    name: str
    n_bytes: int
    n_unpacked: int
    sha256: str
    head: bytes


def store(file: IO[bytes]) -> StoredFile:
    """Copy a stream to var/uploads, hash it, and check a packed file to its end.

    Raises:
        Invalid: the file is empty, an archive or damaged; names the byte.
        TooLarge: it is over the site's limit, or expands too much.
    """
    name = f"{uuid4()}.usage"
    path = path_of(name)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        n_bytes, n_unpacked, digest = _copy(file, path)
        head = head_of(name)
        refuse_archives(head, inside=True)
    except BaseException:
        remove(name)
        raise
    return StoredFile(name, n_bytes, n_unpacked, digest, head)


def _copy(file: IO[bytes], path: Path) -> tuple[int, int, str]:
    digest = hashlib.sha256()
    n_bytes = 0
    check: PackingCheck | None = None
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy:
        while data := file.read(_READ):
            if not n_bytes:
                check = packing_check(data)
            n_bytes += len(data)
            if n_bytes > settings.FAIRSHARE_UPLOAD_BYTES:
                megabytes = settings.FAIRSHARE_UPLOAD_BYTES // 1024**2
                raise TooLarge(f"A file has at most {megabytes} MB: split it, or raise FAIRSHARE_UPLOAD_BYTES.")
            digest.update(data)
            if check is not None:
                check.feed(data)
            copy.write(data)
        copy.flush()
        os.fsync(copy.fileno())
    if not n_bytes:
        raise Invalid("The file is empty.", code="empty_file")
    if check is not None:
        check.finish()
    return n_bytes, check.n_out if check is not None else n_bytes, digest.hexdigest()


def open_unpacked(name: str) -> BinaryIO:
    """Open the stored file, unpacked while reading."""
    return open_packed(path_of(name))


def head_of(name: str) -> bytes:
    """The unpacked first bytes of the stored file, by which its format is recognised."""
    with open_unpacked(name) as unpacked:
        return unpacked.read(HEAD)


def exists(name: str) -> bool:
    return bool(name) and path_of(name).is_file()


def remove(name: str) -> None:
    if name:
        with suppress(FileNotFoundError):
            path_of(name).unlink()


def remove_unused(known: Iterable[str], *, at: datetime) -> None:
    """Remove old files that are not in `known`: of failed requests, and of dry runs that were never confirmed; and what
    killed processes left in the folder of temporary files.
    """
    kept, oldest_s = set(known), (believed(at) - KEPT).timestamp()
    left = Path(settings.FILE_UPLOAD_TEMP_DIR)
    for path in (*path_of("x").parent.glob("*.usage"), *(each for each in left.rglob("*") if not each.is_dir())):
        with suppress(FileNotFoundError):
            if path.name not in kept and path.lstat().st_mtime < oldest_s:
                path.unlink()


def path_of(name: str) -> Path:
    return Path(settings.VAR) / "uploads" / Path(name).name
